// Package infer uses a model's weights without changing them: an [Evaluator]
// computes loss and accuracy over a part of the data, a [Predictor] the model's
// answer for each sample, a [Generator] continues texts. Their graphs are cut over the
// devices as the model's plan is. Several groups of devices may have the model, each
// whole: a batch then goes to a group that is free, and results are put in order.
//
//	e, err := infer.NewEvaluator(ctx, rt, model, part)
//	…
//	err = e.Init(ctx, contents)  // unless a program of the runtime has the weights
//	score, err := e.Run(ctx)
//
// The types to know are [Model], [Score] and [Answer].
//
// # Why is the cache of a text written in the update phase?
//
// A step of generating reads the keys and values of earlier tokens, and adds its own. Attention takes these
// from two places: rows before the step's first position from the cache, its own rows from the projection
// just computed. So it only reads the cache, and the new rows are written afterwards, by nodes of the
// Update phase that take the cache's memory in place. A cache is then a variable as any other: donation,
// stages, pieces under a limit of memory and failed steps need no rule of their own. What is behind the
// last position is never read, so that a text begins anew by counting from 0; nothing is cleared.
//
// # Why does a prompt go in by chunks of one size?
//
// Two graphs of a text are compiled, for 64 tokens and for one, and share weights and caches by name. The last chunk
// is filled up, and rows beyond its count are masked: a length of prompt costs no compilation and no memory
// of its own. Behind the last layer that mixes positions only the last row goes on, since its logits alone
// are used; the head of GPT-2 would otherwise take a third of the time.
//
// # Why are tokens drawn on the device?
//
// The logits of GPT-2 are 200 KB for each token, an id is four bytes. The rule of residency is that nothing
// comes out unasked, and a program asks for the id. The random number is Philox of (seed, number of the
// token), so it depends neither on how the prompt was cut nor on where the context slid. What is drawn from
// is computed in float64 and plain Go: equal logits give equal tokens with every instruction set.
// Temperature, top-k and top-p are inputs and not attributes, so that one compilation serves all, and texts
// of one step may differ in them.
//
// # Why are texts named by places in the caches?
//
// A token alone waits for the weights to come from memory, so several texts take a step together. The
// caches have a place for each of them, and a step's extents say at which places its texts are. A step is
// then of those texts alone that want a token: 1, 2, 4, … of them, with a compiled graph for each of these
// numbers, whose missing texts repeat the first. A prompt is read by the graph of one text, which writes to
// its place: a step with 64 rows for every text would mostly compute rows that fill up. Products sum each
// element in an order that K alone decides, attention reads a text's own place, and random numbers do not
// know the row: so a text has the same bits alone and among others. Where AMX multiplies, the number of
// rows decides the format of a product, and the last bit may differ. A text whose logits are not finite gets
// a negative id in place of an error, which would end the step of all.
//
// # Why do several devices evaluate whole batches, and not stages?
//
// Batches of an evaluation or a prediction do not depend on each other, so each device can compute some of
// them alone: nothing is copied between devices but the weights, once. A batch goes to a device that is
// free, and not in turns, since devices differ in speed and batches in length; results wait in one of a few
// places until those before them are done. A group of devices holds the model in stages where one device
// has no room for it. The stages of a group are a pipeline: it has a batch for each of its devices, where
// there is memory for the weights and their activations. A training's stages evaluate so, too, as far as
// that takes no more memory than a step. A device has no second batch of its own: the time between two
// batches is about 0.15 ms, and a second one made predictions of `digits` 10 % slower and those of a small
// `gpt` no faster beyond chance. Each program
// keeps the sums of its batches apart, in slots of a variable, and its counts. They come out once, at the end,
// and the host adds the sums of batches up in the order of the samples. That is the addition that one device
// does in a variable, so the sums have the same bits, whoever computed which batch. Devices
// of different kinds or kernel levels would give other bits by who was free; they evaluate in stages. So
// does a training without replicas, at an epoch's end: its weights are where its stages are, and would have
// to be copied to every device anew. Replicas have the weights already, and each evaluates batches as a
// group.
//
// When a device is lost, predictions go on with other groups from the first sample that is not done: a
// runtime ends with the loss of a device, so the next one has new tensors, and the few batches that were
// done out of order are computed again. An evaluation begins again: sums of batches among all others are lost
// with the device, and an evaluation is short.
package infer
