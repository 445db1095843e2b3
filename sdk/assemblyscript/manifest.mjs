// A transform of asc that puts manifest.json into the module, where the host finds
// it, and which SDK the module is built with: in the options of asconfig.json,
// "transform": ["talon-policy/manifest.mjs"].

import { readFileSync } from "node:fs";

const { version } = JSON.parse(readFileSync(new URL("./package.json", import.meta.url), "utf8"));

export default class Manifest {
  async afterParse(parser) {
    const text = await this.readFile("manifest.json", this.baseDir);
    if (text === null) throw new Error("manifest.json is missing beside asconfig.json: see docs/reference-abi.md");
    let manifest;
    try {
      manifest = JSON.parse(text);
    } catch (err) {
      throw new Error(`manifest.json is not JSON: ${err.message}`);
    }
    if (Object.keys(manifest)[0] !== "talon_manifest") {
      throw new Error('manifest.json: the first key must be "talon_manifest"');
    }
    const bytes = new TextEncoder().encode(`${JSON.stringify(manifest)}talon-sdk/assemblyscript ${version}\0`);
    parser.parseFile(`memory.data<u8>([${bytes.join(",")}]);`, "talon-manifest.ts", true);
  }
}
