package guest

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func zstdOf(t *testing.T, data []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

// TestCompressed asks a module whose file is compressed. It is known by its file.
func TestCompressed(t *testing.T) {
	wasm := guest{}.assemble()
	file, cache := zstdOf(t, wasm), t.TempDir()
	for range 2 { // compiled, and as it was kept
		m := mustLoad(t, file, func(o *Options) { o.CacheDir = cache })
		if want := codeDir(cache, sha256.Sum256(file)); m.Code() != want {
			t.Errorf("its code is in %s, want %s", m.Code(), want)
		}
		admit(t, m, item(1, "hello"))
	}
	if err := SelfTest(t.Context(), file, Options{Name: "guest"}); err != nil {
		t.Error(err)
	}
	if man, err := ReadManifest(file); err != nil || man.Name != "guest" {
		t.Errorf("%v, %v", man, err)
	}
}

// TestDecompressRefuses is refused a file that holds no module, before much of it is in
// memory.
func TestDecompressRefuses(t *testing.T) {
	bomb := zstdOf(t, make([]byte, maxModuleSize+1))
	if len(bomb) > 100<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"too large":                      {make([]byte, maxModuleSize+1), "the limit is 33554432"},
		"too large when decompressed":    {bomb, "more than 33554432 bytes when it is decompressed"},
		"cut short":                      {zstdOf(t, guest{}.assemble())[:100], "decompress the module: "},
		"compressed twice":               {zstdOf(t, zstdOf(t, guest{}.assemble())), "not a WebAssembly module"},
		"of a form that is not read":     {[]byte("\x1f\x8b\x08 gzip"), "not a WebAssembly module"},
		"the first bytes of zstd, alone": {bytes.Clone(bomb[:4]), "decompress the module: "},
	} {
		_, err := Load(t.Context(), test.file, Options{Name: "guest"})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
