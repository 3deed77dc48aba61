"""What can be loaded as a classifier, and what is refused with a sentence: heads, padding, adapters, sound."""

import json
import shutil
import wave

import numpy as np
import pytest
import torch
import transformers as hf
from datasets import Audio, Dataset
from safetensors.torch import save_file
from tiny_models import INTENTS, WORDS, tiny_bert

import hf_pct
from hf_pct import compare, predict
from hf_pct.models.load import load_model
from hf_pct.models.load.adapters import load_adapter
from hf_pct.models.load.processors import position_limit, text_limit

QUIET = {"progress": False, "use_cache": False}


def saved(model, tokenizer, folder):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


# ---- heads and problems


def test_a_base_encoder_or_a_token_classifier_is_refused_by_the_weights_it_lacks(tmp_path, tokenizer, text_dataset):
    config = tiny_bert().config
    base = saved(hf.BertModel(config), tokenizer, tmp_path / "base")
    with pytest.raises(
        ValueError, match=r"no weights for 'classifier\.bias', 'classifier\.weight'.*saved as BertModel"
    ):
        predict(str(base), text_dataset, **QUIET)
    tags = saved(hf.BertForTokenClassification(config), tokenizer, tmp_path / "tags")
    with pytest.raises(ValueError, match=r"answer at random.*saved as BertForTokenClassification"):
        predict(str(tags), text_dataset, **QUIET)
    assert hf_pct.predict(str(saved(tiny_bert(), tokenizer, tmp_path / "whole")), text_dataset, **QUIET)


def test_a_head_of_another_size_is_refused_by_name(tmp_path, tokenizer, text_dataset):
    choices = saved(hf.BertForMultipleChoice(tiny_bert().config), tokenizer, tmp_path / "choices")  # one logit
    with pytest.raises(ValueError, match=r"no weights for 'classifier\.bias', .*saved as BertForMultipleChoice"):
        predict(str(choices), text_dataset, **QUIET)


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_other_problems_are_refused(tmp_path, tokenizer, text_dataset, problem):
    model = tiny_bert()
    model.config.problem_type = problem
    folder = saved(model, tokenizer, tmp_path / "model")
    for given, options in ((str(folder), {}), (model, {"processor": tokenizer})):
        with pytest.raises(ValueError, match=f"problem_type of .* is '{problem}', expected single-label"):
            predict(given, text_dataset, **QUIET, **options)


# ---- adapters


@pytest.fixture
def adapted(tmp_path, tokenizer):
    """A LoRA adapter with a head of its own on a headless base, as a trainer saves it."""
    from peft import LoraConfig, get_peft_model

    hf.BertModel(tiny_bert().config).save_pretrained(tmp_path / "base")
    model = hf.BertForSequenceClassification.from_pretrained(
        tmp_path / "base", id2label=dict(enumerate(INTENTS)), label2id={n: i for i, n in enumerate(INTENTS)}
    )
    settings = LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"], init_lora_weights=False)
    peft_model = get_peft_model(model, settings).eval()
    peft_model.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter", peft_model


def test_an_adapter_folder_is_a_model(adapted, tokenizer, text_dataset, text_models, tmp_path):
    folder, model = adapted
    table = predict(str(folder), text_dataset, **QUIET)
    live = predict(model, text_dataset, processor=tokenizer, **QUIET)
    assert table.logits == pytest.approx(live.logits, abs=1e-4)
    assert table.label_names == tuple(INTENTS)
    report = compare(predict(str(text_models[0]), text_dataset, **QUIET), table)
    assert report.counts.total == len(text_dataset)


def test_an_adapter_folder_with_classes_that_its_base_does_not_know(adapted, text_dataset):
    folder, _ = adapted
    config = folder.parent / "base" / "config.json"
    settings = json.loads(config.read_text())
    settings |= {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    config.write_text(json.dumps(settings))
    assert load_model(str(folder)).label_names == tuple(f"LABEL_{index}" for index in range(4))
    assert load_model(str(folder), label_names=INTENTS).label_names == tuple(INTENTS)
    (folder / "pct_labels.json").write_text(json.dumps({"label_names": INTENTS[::-1]}))
    assert load_model(str(folder)).label_names == tuple(INTENTS[::-1])


def test_adapter_folders_that_cannot_answer(adapted, text_dataset):
    folder, _ = adapted
    shutil.move(folder.parent / "base", folder.parent / "moved")
    with pytest.raises(ValueError, match=r"was trained on .*base, which cannot be loaded"):
        load_model(str(folder))
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"adapter without adapter_model\.safetensors"):
        load_model(str(folder))


# ---- anything that answers rows


def test_a_pipeline_is_a_model(text_models, text_dataset):
    pipe = hf.pipeline("text-classification", model=str(text_models[0]), device="cpu")
    table = predict(pipe, text_dataset, batch_size=7, **QUIET)
    direct = predict(str(text_models[0]), text_dataset, **QUIET)
    softmax = torch.from_numpy(direct.logits).log_softmax(-1).numpy()
    assert table.logits == pytest.approx(softmax, abs=1e-4)
    assert table.label_names == tuple(INTENTS)
    assert table.provenance.model == "TextClassificationPipeline"
    assert table.provenance.weights is None


def test_functions_and_estimators_are_models(text_dataset):
    def by_name(rows):
        return [INTENTS[len(text) % 4] for text in rows]

    class Estimator:
        classes_ = np.array(INTENTS)

        def predict_proba(self, rows):
            scores = np.eye(4)[[len(text) % 4 for text in rows]]
            return 0.9 * scores + 0.025

    class Labels:
        def predict(self, rows):
            return np.array([len(text) % 4 for text in rows])

    named = predict(by_name, text_dataset, **QUIET)
    assert named.logits is None
    expected = [INTENTS[len(text) % 4] for text in text_dataset["text"]]
    assert [named.vocabulary[code] for code in named.prediction_codes] == expected
    scored = predict(Estimator(), text_dataset, **QUIET)
    assert scored.logits.argmax(-1).tolist() == [len(text) % 4 for text in text_dataset["text"]]
    assert np.exp(scored.logits).max() == pytest.approx(0.925)
    reordered = predict(Estimator(), text_dataset, label_names=INTENTS[::-1], **QUIET)  # it names its own order
    assert reordered.predictions.tolist() == scored.predictions.tolist()
    counted = predict(Labels(), text_dataset, label_names=INTENTS, **QUIET)
    assert compare(named, counted).counts.negative_flips == 0
    with pytest.raises(ValueError, match="does not say of which classes"):
        predict(lambda rows: [[0.5, 0.5] for _ in rows], text_dataset, **QUIET)
    with pytest.raises(ValueError, match="gave 1 answers to 32 rows"):
        predict(lambda rows: ["music"], text_dataset, label_names=INTENTS, **QUIET)
    with pytest.raises(ValueError, match="answers 7, expected one of 4 class names"):
        predict(lambda rows: [7 for _ in rows], text_dataset, label_names=INTENTS, **QUIET)
    with pytest.raises(ValueError, match="features=True needs a model"):
        predict(by_name, text_dataset, features=True, **QUIET)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "answered a list of 32 rows with a NoneType, expected a list"),
        ("music" * 32, "answered a list of 32 rows with a str"),
        ({"label": "music"}, "answered a list of 32 rows with a dict"),
        ([None] * 32, r"no answer to some rows \(None\)"),
        ([float("nan")] * 32, r"no answer to some rows \(nan\)"),
        ([[0.5, 0.5, 0.0, 0.0]] * 31 + [[0.5, 0.5]], r"gives \[2, 4\] scores per row"),
        ([{"score": 1.0}] * 32, "answers with score, expected a 'label'"),
    ],
)
def test_answers_of_no_use_are_refused_with_a_sentence(text_dataset, answer, message):
    with pytest.raises(ValueError, match=message):
        predict(lambda rows: answer, text_dataset.select(range(32)), label_names=INTENTS, **QUIET)


def test_a_zero_shot_pipeline_names_its_classes_row_by_row(text_dataset):
    def zero_shot(rows):
        order = INTENTS[::-1]
        return [{"sequence": text, "labels": order, "scores": [0.4, 0.3, 0.2, 0.1]} for text in rows]

    table = predict(zero_shot, text_dataset, label_names=INTENTS, **QUIET)
    assert np.exp(table.logits[0]) == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert set(predict(zero_shot, text_dataset, **QUIET).predictions) == {INTENTS[-1]}


def test_a_model_none_of_whose_classes_is_in_the_data_is_refused(text_dataset):
    """It would be wrong everywhere, and as an old model it could not be broken."""

    class Numbers:
        classes_ = np.arange(4)

        def predict_proba(self, rows):
            return np.full((len(rows), 4), 0.25)

    for model in (Numbers(), lambda rows: ["Music!"] * len(rows)):
        with pytest.raises(ValueError, match=r"None of the data's labels is a class of the model.*label_names"):
            predict(model, text_dataset, **QUIET)
    assert predict(Numbers(), text_dataset, label_names=INTENTS, **QUIET).label_names == tuple(INTENTS)


def test_a_cross_encoder_is_a_model(text_models, text_rows):
    library = pytest.importorskip("sentence_transformers")
    encoder = library.CrossEncoder(str(text_models[0]), device="cpu")
    data = Dataset.from_list([{**row, "other": "stop music"} for row in text_rows[:20]])
    table = predict(encoder, data, input_column=["text", "other"], label_names=INTENTS, **QUIET)
    direct = predict(str(text_models[0]), data, input_column=["text", "other"], **QUIET)
    assert table.logits.argmax(-1).tolist() == direct.logits.argmax(-1).tolist()


# ---- limits and padding


def test_texts_are_cut_at_what_the_model_has_positions_for(tokenizer, text_dataset):
    import copy

    generous = copy.deepcopy(tokenizer)
    generous.model_max_length = 512
    long = Dataset.from_dict({"text": [" ".join(WORDS * 5)], "label": [INTENTS[0]]})
    assert predict(tiny_bert(), long, processor=generous, **QUIET).logits.shape == (1, 4)
    assert text_limit(generous, tiny_bert()) == 32
    with pytest.raises(ValueError, match="max_length is 40, but BertForSequenceClassification has positions for 32"):
        predict(tiny_bert(), long, processor=generous, max_length=40, **QUIET)
    shared = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    offset = hf.OPTConfig(**shared, ffn_dim=8, max_position_embeddings=24, word_embed_proj_dim=8)
    assert position_limit(hf.OPTForSequenceClassification(offset)) == 24
    computed = hf.LlamaConfig(**shared, intermediate_size=8, max_position_embeddings=24)
    assert position_limit(hf.LlamaForSequenceClassification(computed)) is None


def decoder(**settings):
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=4 + len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=40, id2label=dict(enumerate(INTENTS)), bos_token_id=2, eos_token_id=3, **settings,
    )  # fmt: skip
    return hf.LlamaForSequenceClassification(config).eval()


def test_a_decoder_without_a_padding_token(tmp_path, tokenizer, text_dataset):
    import copy

    folder = saved(decoder(), tokenizer, tmp_path / "decoder")
    right = predict(decoder(pad_token_id=0), text_dataset, processor=tokenizer, **QUIET)
    assert np.array_equal(predict(str(folder), text_dataset, **QUIET).logits, right.logits)
    sentence = r"has no padding token.*tokenizer\.pad_token = tokenizer\.eos_token"
    with pytest.raises(ValueError, match=sentence):
        predict(decoder(), text_dataset, processor=tokenizer, **QUIET)
    without = copy.deepcopy(tokenizer)
    without.pad_token = None
    with pytest.raises(ValueError, match=sentence):
        predict(str(folder), text_dataset, processor=without, **QUIET)


# ---- features


def test_features_are_what_the_last_layer_reads(tmp_path, tokenizer, text_dataset):
    for model, head in ((tiny_bert(), "classifier"), (decoder(pad_token_id=0), "score")):
        table = predict(model, text_dataset, processor=tokenizer, features=True, progress=False, cache_dir=tmp_path)
        features = torch.tensor(table.columns["features"].to_pylist())
        assert features.shape == (len(text_dataset), 16)
        with torch.no_grad():
            assert getattr(model, head)(features).numpy() == pytest.approx(table.logits, abs=1e-4)
        again = predict(model, text_dataset, processor=tokenizer, features=True, progress=False, cache_dir=tmp_path)
        assert again.columns["features"].equals(table.columns["features"])


def test_features_of_a_timm_model(image_rows):
    import timm

    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=2).eval()
    table = predict(model, image_rows, label_names=["cat", "dog"], features=True, **QUIET)
    features = torch.tensor(table.columns["features"].to_pylist())
    with torch.no_grad():
        assert model.get_classifier()(features).numpy() == pytest.approx(table.logits, abs=1e-4)


@pytest.fixture
def image_rows():
    from datasets import Features, Image, Value

    pictures = [np.random.default_rng(n).integers(0, 255, (20, 20, 3), dtype=np.uint8) for n in range(4)]
    features = Features({"image": Image(), "label": Value("string")})
    return Dataset.from_dict({"image": pictures, "label": ["cat", "dog"] * 2}, features=features)


# ---- sound


@pytest.fixture
def listener(tmp_path):
    torch.manual_seed(0)
    config = hf.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, conv_dim=(8, 8),
        conv_stride=(4, 4), conv_kernel=(8, 4), num_feat_extract_layers=2, num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2, classifier_proj_size=8, id2label={0: "yes", 1: "no"}, initializer_range=0.5,
    )  # fmt: skip
    hf.Wav2Vec2ForSequenceClassification(config).save_pretrained(tmp_path / "listener")
    hf.Wav2Vec2FeatureExtractor(sampling_rate=16_000).save_pretrained(tmp_path / "listener")
    return tmp_path / "listener"


def write_wave(path, samples, rate=16_000):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return str(path)


def test_sounds_as_samples_and_as_files(listener, tmp_path):
    sounds = [np.random.default_rng(n).uniform(-1, 1, 900 + 50 * n).astype("float32") for n in range(4)]
    labels = ["yes", "no", "yes", "no"]
    samples = Dataset.from_dict({"audio": sounds, "label": labels})
    table = predict(str(listener), samples, **QUIET)
    assert table.logits.shape == (4, 2)
    paths = [write_wave(tmp_path / f"{n}.wav", sound) for n, sound in enumerate(sounds)]
    files = Dataset.from_dict({"audio": paths, "label": labels}).cast_column("audio", Audio(sampling_rate=16_000))
    options = {"progress": False, "cache_dir": tmp_path / "cache"}
    assert predict(str(listener), files, **options).logits == pytest.approx(table.logits, abs=1e-2)
    write_wave(paths[0], sounds[1])  # another sound in the same file
    changed = predict(str(listener), files, **options).logits
    assert changed[0] == pytest.approx(table.logits[1], abs=1e-2)
    assert changed[0] != pytest.approx(table.logits[0], abs=1e-2)
    write_wave(paths[0], sounds[0], rate=8_000)
    with pytest.raises(ValueError, match="8000 samples per second and the model was trained with 16000"):
        predict(str(listener), files, **QUIET)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("adapter_config.json", "[]", "adapter_config.json"),
        ("adapter_config.json", '{"base_model_name_or_path": 3}', "base_model_name_or_path"),
        ("pct_labels.json", '{"label_names": [1]}', "label_names"),
    ],
)
def test_damaged_files_of_an_adapter_are_named(tmp_path, file, text, said):
    base = tmp_path / "base"
    tiny_bert().save_pretrained(base)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    save_file({"base_model.model.x": torch.zeros(1)}, tmp_path / "adapter_model.safetensors")
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=said):
        load_adapter(str(tmp_path))
