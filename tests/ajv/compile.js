// node compile.js DIRECTORY KEYWORD...: compiles every JSON Schema of a directory in ajv's strict mode, with
// the given keywords declared, and validates the examples in it. Prints what is wrong; code 1 if anything is.
import Ajv from "ajv/dist/2020.js";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const [directory, ...keywords] = process.argv.slice(2);
const names = readdirSync(directory).filter((name) => name.endsWith(".json"));
let wrong = 0;
for (const name of names) {
  try {
    const schema = JSON.parse(readFileSync(join(directory, name), "utf8"));
    const validate = new Ajv.default({ strict: true, keywords }).compile(schema);
    for (const example of schema.examples ?? []) {
      if (!validate(example)) throw new Error(`example: ${JSON.stringify(validate.errors)}`);
    }
  } catch (error) {
    wrong += 1;
    console.log(`${name}: ${error.message}`);
  }
}
console.log(`${names.length} schemas, ${wrong} wrong`);
process.exit(wrong || !names.length ? 1 : 0);
