// Continues prompts by transformers.js: `node with_transformers.mjs FOLDER COUNT PROMPT...`, as
// with_optimum.py, and prints the same.
import path from 'node:path';
import { AutoModelForCausalLM, AutoTokenizer, env } from '@huggingface/transformers';

const [folder, count, ...prompts] = process.argv.slice(2);
env.allowRemoteModels = false;
env.localModelPath = path.dirname(path.resolve(folder)) + path.sep;
const name = path.basename(folder);
const tokenizer = await AutoTokenizer.from_pretrained(name);
const model = await AutoModelForCausalLM.from_pretrained(name);
tokenizer.padding_side = 'left';

async function complete(texts) {
  const inputs = tokenizer(texts, { padding: texts.length > 1 });
  const found = await model.generate({
    ...inputs,
    max_new_tokens: Number(count),
    do_sample: false,
    eos_token_id: null, // go on after it
  });
  const masks = inputs.attention_mask.tolist();
  return found.tolist().map((row, n) => row.slice(masks[n].filter((m) => !Number(m)).length).map(Number));
}

const alone = [];
for (const prompt of prompts) alone.push((await complete([prompt]))[0]);
const texts = alone.map((row) => tokenizer.decode(row));
console.log(JSON.stringify({ alone, texts, together: await complete(prompts) }));
