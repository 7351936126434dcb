// Package pretrained reads and writes models of GPT-2 and of Llama's family (Llama,
// Mistral and Qwen2) in Hugging Face's layout: a
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
//
// # Why does an imported model have a checkpoint of parameters alone?
//
// A model from elsewhere could begin a run by `--init`. But it has a tokenizer, and should evaluate and
// answer before anybody trains it, so it is a run with a checkpoint of step 0. The optimizer's state and
// the step are not in it: at step 0 they follow from rules, and the optimizer may still be chosen. In place
// of the data's fingerprint stands `imported`. As long as it does, `resume` compares the model and the
// tokenizer alone, since nothing else has been trained on.
package pretrained
