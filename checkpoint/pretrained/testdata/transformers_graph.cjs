// Writes the model of an exported folder as onnx/model.onnx, the file that npm's @huggingface/transformers
// runs. The graph is made from config.json and the names of weights in transformers alone, of
// ONNX Runtime's own operators: GroupQueryAttention rotates, caches keys and values, and has the window.
const fs = require('fs');
const path = require('path');

// Protocol buffers: the few fields of onnx.proto that a graph needs.
function varint(n) {
  const out = [];
  for (let x = BigInt.asUintN(64, BigInt(n)); ; x >>= 7n) {
    if (x < 128n) return Buffer.from([...out, Number(x)]);
    out.push(Number(x & 127n) | 128);
  }
}
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint((field << 3) | 2), varint(Buffer.byteLength(b)), Buffer.from(b)]);
const message = (field, ...parts) => bytes(field, Buffer.concat(parts));
function float(field, x) {
  const b = Buffer.alloc(4);
  b.writeFloatLE(x);
  return Buffer.concat([varint((field << 3) | 5), b]);
}
const FLOAT = 1, INT32 = 6, INT64 = 7;

function attribute(name, v) {
  if (typeof v === 'string') return message(5, bytes(1, name), bytes(4, v), number(20, 3));
  if (name === 'epsilon') return message(5, bytes(1, name), float(2, v), number(20, 1));
  return message(5, bytes(1, name), number(3, v), number(20, 2));
}

class Graph {
  constructor() {
    this.parts = [];
    this.count = 0;
  }
  constant(type, dims, raw) {
    const name = 'constant' + this.count++;
    this.parts.push(message(5, ...dims.map((d) => number(1, d)), number(2, type), bytes(8, name), bytes(9, raw)));
    return name;
  }
  floats(list, dims) {
    return this.constant(FLOAT, dims, Buffer.from(Float32Array.from(list).buffer));
  }
  whole(list, dims = [list.length]) {
    return this.constant(INT64, dims, Buffer.from(BigInt64Array.from(list, BigInt).buffer));
  }
  node(op, inputs, attributes = {}, outputs = ['value' + this.count++], domain = '') {
    const named = Object.entries(attributes).map(([name, v]) => attribute(name, v));
    this.parts.push(message(1, ...inputs.map((i) => bytes(1, i)), ...outputs.map((o) => bytes(2, o)), bytes(4, op), ...named, bytes(7, domain)));
    return outputs[0];
  }
  value(field, name, type, dims) {
    const shape = dims.map((d) => message(1, typeof d === 'string' ? bytes(2, d) : number(1, d)));
    this.parts.push(message(field, bytes(1, name), message(2, message(1, number(1, type), message(2, ...shape)))));
  }
  input(name, type, dims) {
    this.value(11, name, type, dims);
    return name;
  }
  model() {
    const opset = (domain, version) => message(8, bytes(1, domain), number(2, version));
    return Buffer.concat([number(1, 10), opset('', 23), opset('com.microsoft', 1), message(7, bytes(2, 'model'), ...this.parts)]);
  }
}

// readWeights reads float32 tensors of a file of safetensors.
function readWeights(file) {
  const b = fs.readFileSync(file);
  const start = 8 + Number(b.readBigUInt64LE());
  const { __metadata__, ...header } = JSON.parse(b.subarray(8, start));
  return Object.fromEntries(Object.entries(header).map(([name, { dtype, shape, data_offsets: [from, to] }]) => {
    if (dtype !== 'F32') throw new Error(`${name} is ${dtype}`);
    return [name, { shape, data: new Float32Array(b.buffer.slice(b.byteOffset + start + from, b.byteOffset + start + to)) }];
  }));
}

// frequencies are those of the rotations: Su et al., "RoFormer", 2021; linear by Chen et al., "Extending
// Context Window …", 2023; llama3 by Grattafiori et al., "The Llama 3 Herd of Models", 2024.
function frequencies(config, size) {
  const s = config.rope_scaling || { rope_type: 'default' };
  return Array.from({ length: size / 2 }, (_, i) => {
    const f = config.rope_theta ** (-2 * i / size), length = 2 * Math.PI / f;
    switch (s.rope_type) {
      case 'default': return f;
      case 'linear': return f / s.factor;
      case 'llama3': {
        const turns = s.original_max_position_embeddings / length;
        const share = Math.min(1, Math.max(0, (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)));
        return (1 - share) * f / s.factor + share * f;
      }
      default: throw new Error(s.rope_type);
    }
  });
}

function writeGraph(folder) {
  const config = JSON.parse(fs.readFileSync(path.join(folder, 'config.json')));
  const weights = readWeights(path.join(folder, 'model.safetensors'));
  const g = new Graph();
  const used = new Set();
  const weight = (name) => {
    if (!weights[name]) throw new Error(`${folder} has no ${name}: it has ${Object.keys(weights)}`);
    used.add(name);
    return weights[name];
  };
  const vector = (name) => g.floats(weight(name).data, weight(name).shape);
  const turned = (name) => { // [out,in] as [in,out]
    const { data, shape: [rows, cols] } = weight(name);
    const out = new Float32Array(data.length);
    for (let i = 0; i < rows; i++) for (let j = 0; j < cols; j++) out[j * rows + i] = data[i * cols + j];
    return g.floats(out, [cols, rows]);
  };
  const biased = (x, name) => (weights[name] ? g.node('Add', [x, vector(name)]) : x);
  const linear = (x, name) => biased(g.node('MatMul', [x, turned(name + '.weight')]), name + '.bias');
  const conv1d = (x, name) => biased(g.node('MatMul', [x, vector(name + '.weight')]), name + '.bias'); // GPT-2's are [in,out]
  const add = (a, b) => g.node('Add', [a, b]);

  const gpt2 = config.model_type === 'gpt2';
  const heads = gpt2 ? config.n_head : config.num_attention_heads, groups = gpt2 ? heads : config.num_key_value_heads;
  const size = gpt2 ? config.n_embd / heads : config.head_dim, layers = gpt2 ? config.n_layer : config.num_hidden_layers;
  const ids = g.input('input_ids', INT64, ['batch_size', 'sequence_length']), mask = g.input('attention_mask', INT64, ['batch_size', 'total_sequence_length']);
  const last = g.node('Cast', [g.node('Sub', [g.node('ReduceSum', [mask, g.whole([1])], { keepdims: 1 }), g.whole([1])])], { to: INT32 });
  const total = g.node('Cast', [g.node('Gather', [g.node('Shape', [mask]), g.whole([1], [])])], { to: INT32 });

  function attention(i, q, k, v, rotations, window) {
    const dims = ['batch_size', groups, 'past_sequence_length', size];
    const past = ['key', 'value'].map((what) => g.input(`past_key_values.${i}.${what}`, FLOAT, dims));
    const present = ['key', 'value'].map((what) => `present.${i}.${what}`);
    for (const name of present) g.value(12, name, FLOAT, ['batch_size', groups, 'total_sequence_length', size]);
    const attributes = { num_heads: heads, kv_num_heads: groups, do_rotary: rotations.length ? 1 : 0, local_window_size: window || -1 };
    return g.node('GroupQueryAttention', [q, k, v, ...past, last, total, ...rotations], attributes, ['attended' + i, ...present], 'com.microsoft');
  }

  let x, head;
  if (gpt2) {
    const norm = (x, name) => g.node('LayerNormalization', [x, vector(name + '.weight'), vector(name + '.bias')], { axis: -1, epsilon: config.layer_norm_epsilon });
    const positions = g.input('position_ids', INT64, ['batch_size', 'sequence_length']);
    x = add(g.node('Gather', [vector('transformer.wte.weight'), ids]), g.node('Gather', [vector('transformer.wpe.weight'), positions]));
    for (let i = 0; i < layers; i++) {
      const p = `transformer.h.${i}.`, qkv = [0, 1, 2].map((j) => `part${i}.${j}`);
      g.node('Split', [conv1d(norm(x, p + 'ln_1'), p + 'attn.c_attn')], { axis: -1, num_outputs: 3 }, qkv);
      x = add(x, conv1d(attention(i, ...qkv, [], 0), p + 'attn.c_proj'));
      x = add(x, conv1d(g.node('Gelu', [conv1d(norm(x, p + 'ln_2'), p + 'mlp.c_fc')], { approximate: 'tanh' }), p + 'mlp.c_proj'));
    }
    x = norm(x, 'transformer.ln_f');
    head = 'transformer.wte.weight';
  } else {
    const norm = (x, name) => g.node('RMSNormalization', [x, vector(name + '.weight')], { axis: -1, epsilon: config.rms_norm_eps });
    const act = (x) => (config.hidden_act === 'silu' ? g.node('Mul', [x, g.node('Sigmoid', [x])]) : g.node('Gelu', [x], { approximate: 'tanh' }));
    const angles = Array.from({ length: config.max_position_embeddings }, (_, t) => frequencies(config, size).map((f) => t * f)).flat();
    const rotations = [Math.cos, Math.sin].map((f) => g.floats(angles.map(f), [config.max_position_embeddings, size / 2]));
    x = g.node('Gather', [vector('model.embed_tokens.weight'), ids]);
    for (let i = 0; i < layers; i++) {
      const p = `model.layers.${i}.`, y = norm(x, p + 'input_layernorm');
      const windowed = config.model_type === 'mistral' || (config.use_sliding_window && i >= config.max_window_layers);
      const [q, k, v] = ['q', 'k', 'v'].map((n) => linear(y, `${p}self_attn.${n}_proj`));
      x = add(x, linear(attention(i, q, k, v, rotations, windowed && config.sliding_window), p + 'self_attn.o_proj'));
      const z = norm(x, p + 'post_attention_layernorm');
      x = add(x, linear(g.node('Mul', [act(linear(z, p + 'mlp.gate_proj')), linear(z, p + 'mlp.up_proj')]), p + 'mlp.down_proj'));
    }
    x = norm(x, 'model.norm');
    head = config.tie_word_embeddings ? 'model.embed_tokens.weight' : 'lm_head.weight';
  }
  g.node('MatMul', [x, turned(head)], {}, ['logits']);
  g.value(12, 'logits', FLOAT, ['batch_size', 'sequence_length', config.vocab_size]);
  const rest = Object.keys(weights).filter((name) => !used.has(name));
  if (rest.length) throw new Error(`${folder}: transformers has no ${rest}`);
  fs.mkdirSync(path.join(folder, 'onnx'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'onnx', 'model.onnx'), g.model());
}

module.exports = { writeGraph };
