package guest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"talon/sdk/abi/manifest"
)

// Decompress returns the module that a file holds, which may be compressed with zstd. What
// the module is known by, its hash and its signature, is that of the file.
func Decompress(file []byte) (wasm []byte, err error) {
	wasm = file
	if bytes.HasPrefix(file, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxModuleSize))
		if err != nil {
			return nil, err
		}
		defer r.Close()
		wasm, err = r.DecodeAll(file, nil)
		if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
			return nil, fmt.Errorf("the module has more than %d bytes when it is decompressed", maxModuleSize)
		}
		if err != nil {
			return nil, fmt.Errorf("decompress the module: %w", err)
		}
	}
	if len(wasm) > maxModuleSize {
		return nil, fmt.Errorf("the module has %d bytes; the limit is %d", len(wasm), maxModuleSize)
	}
	return wasm, nil
}

// ReadManifest returns the manifest of the module that a file holds.
func ReadManifest(file []byte) (*manifest.Manifest, error) {
	wasm, err := Decompress(file)
	if err != nil {
		return nil, err
	}
	return manifest.FromModule(wasm)
}
