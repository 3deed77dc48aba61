"""Where the methods come from, as model cards cite it. A method with a source of its own has the entry in its file."""

YAN_2021 = """@inproceedings{yan2021positive,
  title     = {Positive-Congruent Training: Towards Regression-Free Model Updates},
  author    = {Yan, Sijie and Xiong, Yuanjun and Kundu, Kaustav and Yang, Shuo and Deng, Siqi and Wang, Meng and
               Xia, Wei and Soatto, Stefano},
  booktitle = {Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)},
  year      = {2021}
}"""

SCHUMANN_2023 = """@article{schumann2023backward,
  title   = {Backward Compatibility During Data Updates by Weight Interpolation},
  author  = {Schumann, Raphael and Mansimov, Elman and Lai, Yi-An and Pappas, Nikolaos and Gao, Xibin and Zhang, Yi},
  journal = {arXiv preprint arXiv:2301.10546},
  year    = {2023}
}"""
