// Runs models with ONNX Runtime. Standard input is a JSON list of {model, feeds}, where a feed
// is {type, dims, data}; standard output is the list of their outputs, or {error}. Numbers that JSON
// lacks are texts: "NaN", "Infinity", "-Infinity". Whole numbers of 64 bits are texts, too.
const ort = require('onnxruntime-node');

const arrays = {float32: Float32Array, float64: Float64Array, int32: Int32Array, int64: BigInt64Array};

function tensor({type, dims, data}) {
  const From = arrays[type];
  return new ort.Tensor(type, !From ? data : From.from(data, type === 'int64' ? BigInt : Number), dims);
}

function plain({type, dims, data}) {
  const word = (v) => typeof v === 'bigint' || typeof v === 'number' && !Number.isFinite(v) ? String(v) : v;
  return {type, dims, data: Array.from(data, word)};
}

async function run({model, feeds}) {
  const session = await ort.InferenceSession.create(model, {logSeverityLevel: 3, intraOpNumThreads: 1});
  const inputs = {};
  for (const name in feeds) inputs[name] = tensor(feeds[name]);
  const outputs = await session.run(inputs);
  const out = {};
  for (const name of session.outputNames) out[name] = plain(outputs[name]);
  return out;
}

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const results = [];
  for (const job of JSON.parse(Buffer.concat(chunks))) {
    results.push(await run(job).catch((error) => ({error: String(error)})));
  }
  process.stdout.write(JSON.stringify(results));
}

main();
