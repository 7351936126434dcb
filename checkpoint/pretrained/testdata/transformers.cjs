// Compares what trainer exports with npm's @huggingface/transformers, whose models run on
// onnxruntime-node. It trains tiny models, so it needs no files but those beside it.
//
//   npm install --ignore-scripts @huggingface/transformers@4.3.2   # anywhere
//   go build -o /tmp/trainer ./cmd/trainer
//   NODE_PATH=THERE/node_modules node checkpoint/pretrained/testdata/transformers.cjs /tmp/trainer
//
// It prints what agrees, and ends with an error where anything else does not.
const fs = require('fs');
const os = require('os');
const path = require('path');
const { execFileSync } = require('child_process');
const ort = require('onnxruntime-node');
const { AutoModelForCausalLM, AutoTokenizer, Tensor, env } = require('@huggingface/transformers');
const { writeGraph } = require('./transformers_graph.cjs');

const root = path.join(__dirname, '..', '..', '..');
const references = path.join(root, 'datasets/tokenizer/testdata/references');
const json = (...parts) => JSON.parse(fs.readFileSync(path.join(...parts)));
const trainer = path.resolve(process.argv[2]);
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'transformers-'));
const inDir = (name) => path.join(dir, name);
env.allowRemoteModels = false;
env.localModelPath = dir;

// run is what a command of trainer prints, in the temporary folder.
const run = (...args) => execFileSync(trainer, args, { cwd: dir, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 28 });

let failed = 0;
function check(ok, what) {
  if (!ok) {
    failed++;
    console.log('DIFFERENT:', what);
  }
  return ok;
}

const context = 48;
const families = {
  gpt2: { tokenizer: 'gpt2', model: '{preset: gpt, layers: 2, heads: 4, width: 64}' },
  llama: {
    tokenizer: 'llama3',
    model: '{preset: llama, num_hidden_layers: 2, hidden_size: 32, intermediate_size: 48, num_attention_heads: 4, head_dim: 16, num_key_value_heads: 2, rope_scaling: {rope_type: llama3, factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 16}}',
  },
  mistral: { tokenizer: 'mistral', model: '{preset: mistral, num_hidden_layers: 2, hidden_size: 32, intermediate_size: 48, num_attention_heads: 4, head_dim: 16, num_key_value_heads: 1, sliding_window: 7, tie_word_embeddings: true}' },
  qwen2: {
    tokenizer: 'qwen2',
    model: '{preset: qwen2, num_hidden_layers: 2, hidden_size: 32, intermediate_size: 48, num_attention_heads: 4, head_dim: 16, num_key_value_heads: 2, use_sliding_window: true, sliding_window: 7, max_window_layers: 1, rope_scaling: {rope_type: linear, factor: 2}}',
  },
  llama2: { tokenizer: 'llama2', model: '{preset: llama, num_hidden_layers: 1, hidden_size: 64, intermediate_size: 48, num_attention_heads: 4}' },
  metaspace: { tokenizer: 'metaspace', model: '{preset: llama, num_hidden_layers: 1, hidden_size: 32, intermediate_size: 48, num_attention_heads: 4, head_dim: 16, hidden_act: gelu_pytorch_tanh}' },
};

// makeRun trains a model of a family and exports it as a folder and as ONNX.
function makeRun(name, { tokenizer, model }, texts) {
  fs.writeFileSync(inDir('text.txt'), texts.join('\n'));
  fs.writeFileSync(inDir(name + '.yaml'), `data: {source: text, path: text.txt, tokenizer: ${path.join(references, tokenizer + '.json')}, context: ${context}, split: 0.9}
model: ${model}
optimizer: {lr: 0.01}
train: {epochs: 15, batch: 4}
`);
  run('train', name + '.yaml', '--run', 'run-' + name, '--quiet');
  run('export', 'run-' + name, '--last', '--format', 'hf', '--out', name);
  run('export', 'run-' + name, '--last', '--out', name + '.onnx');
}

// known are texts that transformers' tokenizer in JavaScript gives other ids than Hugging Face's in
// Rust, which ids.json is of: see make.js.
const known = (name, text) => (name === 'metaspace' && /  |▁▁/.test(text)) || (name === 'qwen2' && /cafe\u0301/.test(text));

async function compareIds(names, texts) {
  const want = json(references, 'ids.json');
  let same = 0, other = 0;
  for (const name of names) {
    const t = await AutoTokenizer.from_pretrained(name);
    texts.forEach((text, i) => {
      const got = t.encode(text, { add_special_tokens: false });
      const ids = want[families[name].tokenizer][i];
      if (JSON.stringify(got) === JSON.stringify(ids)) same++;
      else {
        other++;
        check(known(name, text), `ids of ${name}, ${JSON.stringify(text)}: ${got}, want ${ids}`);
      }
    });
  }
  console.log(`ids: AutoTokenizer of ${names.length} exported folders gives the ids of ids.json for ${same} of ${same + other} texts`);
}

async function compareTemplates() {
  const { conversations, templates } = json(root, 'datasets/chat/testdata/references.json');
  fs.mkdirSync(inDir('base'));
  fs.copyFileSync(path.join(references, 'mistral.json'), inDir('base/tokenizer.json'));
  const talk = [{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }];
  fs.writeFileSync(inDir('chats.jsonl'), (JSON.stringify({ messages: talk }) + '\n').repeat(4));
  let same = 0, counts = 0, refused = 0, skipped = [];
  for (const { name, template, texts } of templates) {
    if (name === 'language') { // a test of Jinja's syntax, and no template of a model
      skipped.push(name);
      continue;
    }
    fs.writeFileSync(inDir('base/tokenizer_config.json'), JSON.stringify({ bos_token: '<s>', eos_token: '</s>', chat_template: template }));
    fs.writeFileSync(inDir('chat.yaml'), `data: {source: text, path: chats.jsonl, field: messages, tokenizer: base, context: 512, split: 1}
model: {preset: llama, num_hidden_layers: 1, hidden_size: 8, intermediate_size: 8, num_attention_heads: 2}
train: {epochs: 1, batch: 1}
`);
    run('train', 'chat.yaml', '--run', 'chat-' + name, '--quiet');
    run('export', 'chat-' + name, '--format', 'hf', '--out', 'folder-' + name);
    const t = await AutoTokenizer.from_pretrained('folder-' + name);
    for (const [i, want] of texts.entries()) {
      const messages = conversations[i >> 1], prompt = i % 2 === 1;
      let got;
      try {
        got = t.apply_chat_template(messages, { tokenize: false, add_generation_prompt: prompt });
      } catch (error) {
        got = null;
      }
      if (want.error !== undefined) {
        refused += check(got === null, `${name} of conversation ${i >> 1}: ${got}, want an error`);
        continue;
      }
      if (!check(got === want, `${name} of conversation ${i >> 1}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`)) continue;
      same++;
      if (prompt && !messages.some((m) => m.name)) { // trainer generate takes role and content alone
        const lines = run('generate', 'chat-' + name, '--chat', '--prompt', JSON.stringify(messages), '--tokens', '1', '--json').trim().split('\n');
        const { prompt_tokens } = JSON.parse(lines[lines.length - 1]);
        const ids = t.encode(got, { add_special_tokens: false });
        counts += check(prompt_tokens === ids.length, `${name}: a prompt of ${prompt_tokens} tokens, want ${ids.length}`);
      }
    }
  }
  console.log(`chat templates: apply_chat_template of ${templates.length - skipped.length} exported folders gives the texts of references.json for ${same} conversations and refuses ${refused}; trainer generate --chat has as many tokens in ${counts} prompts`);
}

const logSoftmax = (x) => {
  const most = Math.max(...x);
  const sum = Math.log(x.reduce((s, v) => s + Math.exp(v - most), 0)) + most;
  return x.map((v) => v - sum);
};
const apart = (a, b) => a.reduce((most, v, i) => Math.max(most, Math.abs(v - b[i])), 0);

async function compareModel(name, texts) {
  writeGraph(inDir(name));
  const t = await AutoTokenizer.from_pretrained(name);
  const model = await AutoModelForCausalLM.from_pretrained(name, { dtype: 'fp32' });
  const own = await ort.InferenceSession.create(inDir(name + '.onnx'), { logSeverityLevel: 3 });
  let onnx = 0, predicted = 0, positions = 0, prompts = 0, alike = 0, size = 0;
  for (const text of texts) {
    const ids = t.encode(text, { add_special_tokens: false }).slice(0, context);
    const tensor = (list) => new Tensor('int64', BigInt64Array.from(list, BigInt), [1, list.length]);
    const out = (await model({ input_ids: tensor(ids), attention_mask: tensor(ids.map(() => 1)) })).logits;
    const theirs = Array.from(out.data), vocab = out.dims[2];
    const ours = Array.from((await own.run({ ids: new ort.Tensor('int64', BigInt64Array.from(ids, BigInt), [1, ids.length]) })).logits.data);
    positions += ids.length;
    onnx = Math.max(onnx, apart(theirs, ours));
    size = theirs.reduce((most, v) => Math.max(most, Math.abs(v)), size);

    // predict prints probabilities of the token behind the text.
    const prompt = t.decode(ids.slice(0, 20));
    if (JSON.stringify(t.encode(prompt, { add_special_tokens: false })) !== JSON.stringify(ids.slice(0, 20))) continue;
    fs.writeFileSync(inDir('prompt.txt'), prompt);
    const { values } = JSON.parse(run('predict', 'run-' + name, 'prompt.txt', '--last').trim().split('\n').pop());
    predicted = Math.max(predicted, apart(logSoftmax(theirs.slice(19 * vocab, 20 * vocab)), values.map(Math.log)));

    // The likeliest tokens, with caches of keys and values.
    prompts++;
    const more = await model.generate({ inputs: tensor(ids.slice(0, 20)), attention_mask: tensor(ids.slice(0, 20).map(() => 1)), max_new_tokens: context - 20, do_sample: false });
    const want = Array.from(more.data, Number).slice(20);
    const lines = run('generate', 'run-' + name, '--last', '--prompt', prompt, '--temperature', '0', '--tokens', String(context - 20), '--json').trim().split('\n').map((l) => JSON.parse(l));
    const got = lines.flatMap((l) => (Array.isArray(l.tokens) ? l.tokens : []));
    const rest = want.slice(got.length); // the ids of an unfinished character at the end are in no piece
    const ends = rest.length === 0 || (rest.length < 4 && t.decode(rest).includes('\ufffd'));
    alike += check(ends && JSON.stringify(got) === JSON.stringify(want.slice(0, got.length)), `${name}: ${got} behind ${JSON.stringify(prompt)}, want ${want}`);
  }
  check(onnx <= 1e-4 && predicted <= 1e-4 && prompts > 0, `${name}: logits by ${onnx} and ${predicted}`);
  console.log(`${name}: logits up to ${size.toFixed(1)} in ${positions} positions: exported ONNX differs by ${onnx.toExponential(1)}, log probabilities of predict by ${predicted.toExponential(1)}; the likeliest ${context - 20} tokens are the same for ${alike} of ${prompts} prompts`);
  await model.dispose();
}

(async () => {
  const texts = json(references, 'texts.json');
  for (const name in families) makeRun(name, families[name], texts.slice(0, 17));
  await compareIds(Object.keys(families), texts);
  for (const name of Object.keys(families)) await compareModel(name, texts.slice(0, 17));
  await compareTemplates();
  fs.rmSync(dir, { recursive: true });
  if (failed) process.exitCode = 1;
})();
