// Package pretrained reads and writes GPT-2 models in Hugging Face's layout: a
// folder with config.json, model.safetensors and tokenizer.json.
//
// [Open] reads such a folder, and [Folder.Weights] checks its tensors against a
// model's and gives them to a checkpoint. [Write] writes a folder that
// transformers' from_pretrained loads. Nothing larger than a piece of a tensor is
// in memory while reading, and than one tensor while writing.
//
// Folders may come from anywhere: what is damaged, or describes a model that this
// module cannot compute, is refused by its name.
//
// The types to know are [Folder], [Config], [Weights] and [Model].
package pretrained
