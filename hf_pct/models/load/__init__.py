"""Classifiers behind one face: text, image and audio models, timm, adapters, ensembles, pipelines and functions."""

from .answering import accepted_inputs as accepted_inputs
from .answering import ask as ask
from .answering import label_names_of as label_names_of
from .answering import logits_of as logits_of
from .answering import stated_labels as stated_labels
from .kinds import ENSEMBLE_FILE as ENSEMBLE_FILE
from .kinds import FUSION_FILE as FUSION_FILE
from .kinds import is_image_config as is_image_config
from .kinds import is_raw_timm as is_raw_timm
from .model import load_model as load_model
from .single import LoadedModel as LoadedModel
from .tasks import ImageTask as ImageTask
from .tasks import Task as Task
from .tasks import TextTask as TextTask
from .weights import load_config as load_config
from .weights import load_weights as load_weights
