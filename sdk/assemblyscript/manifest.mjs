// A transform of asc that puts manifest.json into the module, where the host finds
// it: in the options of asconfig.json, "transform": ["talon-policy/manifest.mjs"].

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
    const bytes = new TextEncoder().encode(JSON.stringify(manifest));
    parser.parseFile(`memory.data<u8>([${bytes.join(",")}]);`, "talon-manifest.ts", true);
  }
}
