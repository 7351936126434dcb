// Makes small tokenizers of several families from texts.json, and the ids that Hugging Face's own
// implementation (npm's tokenizers, which is theirs in Rust) gives the texts. A second implementation,
// npm's @huggingface/tokenizers in JavaScript, must agree but for what is listed below.
//
//   npm install --ignore-scripts tokenizers@0.23.2 @huggingface/tokenizers@0.2.0   # anywhere
//   NODE_PATH=THERE/node_modules node make.js
const fs = require('fs');
const path = require('path');
const { Tokenizer } = require('tokenizers');
const second = require('@huggingface/tokenizers');

const here = (name) => path.join(__dirname, name);
const texts = JSON.parse(fs.readFileSync(here('texts.json')));

// learn joins the most frequent pair of neighbours within words, again and again; of equally frequent
// ones the first in order.
function learn(words, most) {
  let list = [...words].map(([tokens, n]) => ({ tokens: tokens.split('\u0001'), n }));
  const merges = [];
  while (merges.length < most) {
    const counts = new Map();
    for (const { tokens, n } of list) {
      for (let i = 0; i + 1 < tokens.length; i++) {
        const key = tokens[i] + '\u0001' + tokens[i + 1];
        counts.set(key, (counts.get(key) || 0) + n);
      }
    }
    const [best, n] = [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0] || [null, 0];
    if (n < 2) break;
    const [left, right] = best.split('\u0001');
    merges.push([left, right]);
    for (const w of list) {
      const out = [];
      for (let i = 0; i < w.tokens.length; i++) {
        if (w.tokens[i] === left && w.tokens[i + 1] === right) {
          out.push(left + right);
          i++;
        } else out.push(w.tokens[i]);
      }
      w.tokens = out;
    }
  }
  return merges;
}

function count(list) {
  const words = new Map();
  for (const w of list) {
    const key = w.join('\u0001');
    words.set(key, (words.get(key) || 0) + 1);
  }
  return words;
}

const ids = (names) => Object.fromEntries(names.map((name, i) => [name, i]));
const added = (id, content, more = {}) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true, ...more });
const prose = texts.slice(0, 17);

// The names of bytes, as byte-level files have them.
const byteNames = [];
for (let b = 0, next = 256; b < 256; b++) {
  const plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  byteNames.push(String.fromCodePoint(plain ? b : next++));
}
const named = (text) => [...Buffer.from(text)].map((b) => byteNames[b]);

function byteLevel() {
  const words = prose.flatMap((t) => t.match(/[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+/gu));
  const merges = learn(count(words.map(named)), 400);
  return { names: [...[...byteNames].sort(), ...merges.map(([a, b]) => a + b)], merges };
}

function pieces() {
  const words = prose.flatMap((t) => ('▁' + t.replaceAll(' ', '▁')).match(/▁?[^▁]+/gu)).map((w) => [...w]);
  const merges = learn(count(words), 300);
  const counts = new Map();
  for (const c of words.flat()) counts.set(c, (counts.get(c) || 0) + 1);
  const chars = [...counts].filter(([, n]) => n > 1).map(([c]) => c).sort();
  const bytes = [...Array(256).keys()].map((b) => `<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`);
  const runs = [['▁', '▁'], ['▁▁', '▁▁']]; // a real vocabulary has runs of spaces, too
  merges.push(...runs);
  const names = ['<unk>', '<s>', '</s>', ...bytes, ...merges.map(([a, b]) => a + b), ...chars];
  return { names: [...new Set(names)], merges };
}

const llamaRegex = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const qwenRegex = llamaRegex.replace('\\p{N}{1,3}', '\\p{N}');
const split = (regex) => ({
  type: 'Sequence',
  pretokenizers: [
    { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false },
    { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
  ],
});
const byteLevelPart = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
const model = (part, more) => ({ type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false, ...more, vocab: ids(part.names), merges: part.merges });
const file = (more) => ({ version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, ...more });

const b = byteLevel();
const nb = b.names.length;
const p = pieces();
const np = p.names.length;
const special = [added(0, '<unk>'), added(1, '<s>'), added(2, '</s>'), added(np, '<pad>'), added(np + 1, 'café', { special: false, normalized: true })];
const fallback = (more) => model(p, { unk_token: '<unk>', fuse_unk: true, byte_fallback: true, ...more });
const toMark = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
const decoder = { type: 'Sequence', decoders: [{ type: 'Replace', pattern: { String: '▁' }, content: ' ' }, { type: 'ByteFallback' }, { type: 'Fuse' }, { type: 'Strip', content: ' ', start: 1, stop: 0 }] };
const metaspace = (prepend_scheme, split) => ({ type: 'Metaspace', replacement: '▁', prepend_scheme, split });

const all = {
  gpt2: file({ added_tokens: [added(nb, '<|endoftext|>')], pre_tokenizer: byteLevelPart, decoder: byteLevelPart, model: model(b) }),
  llama3: file({ added_tokens: [added(nb, '<|begin_of_text|>'), added(nb + 1, '<|end_of_text|>')], pre_tokenizer: split(llamaRegex), decoder: byteLevelPart, model: model(b, { ignore_merges: true }) }),
  qwen2: file({
    added_tokens: [added(nb, '<|endoftext|>'), added(nb + 1, '<|im_start|>'), added(nb + 2, '<|im_end|>'), added(nb + 3, 'café', { special: false, normalized: true })],
    normalizer: { type: 'NFC' }, pre_tokenizer: split(qwenRegex), decoder: byteLevelPart, model: model(b, { continuing_subword_prefix: '', end_of_word_suffix: '' }),
  }),
  llama2: file({ added_tokens: special, normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, toMark] }, decoder, model: fallback() }),
  mistral: file({ added_tokens: special, pre_tokenizer: metaspace('first', false), decoder, model: fallback({ ignore_merges: true }) }),
  metaspace: file({ added_tokens: special.slice(0, 4), pre_tokenizer: metaspace('always', true), decoder, model: fallback({ ignore_merges: true }) }),
};

// differs reports whether the second implementation need not give the same ids: it joins runs of spaces
// that Metaspace has split, and finds no added token in text that only NFC makes equal to it.
const differs = (name, text) => (name === 'metaspace' && /  |▁▁/.test(text)) || (name === 'qwen2' && /cafe\u0301/.test(text));

(async () => {
  const out = {};
  let same = 0, other = 0;
  for (const [name, json] of Object.entries(all)) {
    fs.writeFileSync(here(name + '.json'), JSON.stringify(json) + '\n');
    const t = Tokenizer.fromFile(here(name + '.json'));
    const u = new second.Tokenizer(json, {});
    out[name] = [];
    for (const text of texts) {
      const got = (await t.encode(text, null, { addSpecialTokens: false })).getIds();
      out[name].push(got);
      const also = u.encode(text, { add_special_tokens: false }).ids;
      if (JSON.stringify(also) === JSON.stringify(got)) same++;
      else {
        other++;
        if (!differs(name, text)) console.log(name, JSON.stringify(text), '\n ', got.join(' '), '\n ', also.join(' '));
      }
    }
  }
  const lines = Object.entries(out).map(([name, list]) => ` ${JSON.stringify(name)}: [\n${list.map((l) => '  ' + JSON.stringify(l)).join(',\n')}\n ]`);
  fs.writeFileSync(here('ids.json'), '{\n' + lines.join(',\n') + '\n}\n');
  console.log(`${same} texts alike in both, ${other} not`);
})();
