package compile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	var missing []*Job
	keep := []string{guest.DictionaryFile}
	for _, dir := range from {
		modules, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range modules {
			if filepath.Ext(e.Name()) != ".wasm" {
				continue
			}
			wasm, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return err
			}
			j := &Job{Name: strings.TrimSuffix(e.Name(), ".wasm"), Wasm: wasm}
			j.Service.Domain = manifest.VectorDomain
			switch err := j.within(func() error { return j.load(ctx, folder) }); {
			case err == nil:
				keep = append(keep, filepath.Base(guest.PreparedFile(folder, wasm)))
			case errors.Is(err, errUnusable):
				missing = append(missing, j)
			default:
				return fmt.Errorf("look at %s: %w", e.Name(), err)
			}
		}
	}
	if len(keep) == 1 {
		keep = nil // a dictionary alone is of other modules
	}
	there, err := os.ReadDir(folder)
	for _, e := range there {
		if err == nil && !slices.Contains(keep, e.Name()) {
			err = os.Remove(filepath.Join(folder, e.Name()))
		}
	}
	if err != nil {
		return err
	}
	for _, j := range missing {
		err := j.within(func() error {
			if err := j.do(ctx); err != nil {
				return err
			}
			return guest.Pack(folder, j.CacheDir, j.Wasm)
		})
		if err != nil {
			return fmt.Errorf("compile %s.wasm: %w", j.Name, err)
		}
	}
	return nil
}

// within calls f with a cache for this job alone.
func (j *Job) within(f func() error) error {
	cache, err := os.MkdirTemp("", "talon-compile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(cache)
	j.CacheDir = cache
	return f()
}

// load loads the module with what the folder has of it, or returns errUnusable.
func (j *Job) load(ctx context.Context, folder string) error {
	o := guest.Options{Name: j.Name, Service: j.Service, CacheDir: j.CacheDir, Prepared: folder, Patient: true}
	o.Elsewhere = func(context.Context) error { return errUnusable }
	m, err := guest.Load(ctx, j.Wasm, o)
	if err != nil {
		return err
	}
	return errors.Join(m.Close(ctx), guest.SelfTest(ctx, j.Wasm, o))
}

var errUnusable = errors.New("there is no compiled code that can be used here")
