package compile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
)

// Prepare fills a folder with the compiled code of the modules in other folders, with
// which a server needs no process for them ([guest.Options.Prepared]). What is there and
// can be used on this machine stays, what belongs to no module goes.
func Prepare(ctx context.Context, folder string, from []string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var files []string
	for _, dir := range from {
		modules, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range modules {
			if filepath.Ext(e.Name()) != ".wasm" {
				continue
			}
			file, err := prepare(ctx, folder, filepath.Join(dir, e.Name()))
			if err != nil {
				return fmt.Errorf("compile %s: %w", e.Name(), err)
			}
			files = append(files, filepath.Base(file))
		}
	}
	there, err := os.ReadDir(folder)
	for _, e := range there {
		if err == nil && !slices.Contains(files, e.Name()) {
			err = os.Remove(filepath.Join(folder, e.Name()))
		}
	}
	return err
}

// prepare returns the file of one module, which it writes if there is none that can be
// used.
func prepare(ctx context.Context, folder, module string) (file string, err error) {
	wasm, err := os.ReadFile(module)
	if err != nil {
		return "", err
	}
	cache, err := os.MkdirTemp("", "talon-compile-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(cache)
	file = guest.PreparedFile(folder, wasm)
	j := &Job{
		Name: strings.TrimSuffix(filepath.Base(module), ".wasm"), Wasm: wasm, CacheDir: cache,
		Service: host.Service{Domain: manifest.VectorDomain},
	}
	o := guest.Options{Name: j.Name, Service: j.Service, CacheDir: cache, Prepared: folder, Patient: true}
	o.Elsewhere = func(context.Context) error { return errUnusable }
	m, err := guest.Load(ctx, wasm, o)
	if err == nil {
		err = errors.Join(m.Close(ctx), guest.SelfTest(ctx, wasm, o))
	}
	if err == nil || !errors.Is(err, errUnusable) {
		return file, err
	}
	if err := j.do(ctx); err != nil {
		return "", err
	}
	packed, err := guest.Pack(cache, wasm)
	if err == nil {
		err = os.WriteFile(file+".new", packed, 0o644)
	}
	if err != nil {
		return "", err
	}
	return file, os.Rename(file+".new", file)
}

var errUnusable = errors.New("there is no compiled code that can be used here")
