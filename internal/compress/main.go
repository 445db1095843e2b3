// Command compress writes files to a folder, compressed with zstd. A file there that holds
// the same stays. The build has it compress the modules that come with Talon.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: compress FOLDER FILE...")
		os.Exit(2)
	}
	for _, file := range os.Args[2:] {
		if err := compress(os.Args[1], file); err != nil {
			fmt.Fprintln(os.Stderr, "compress:", err)
			os.Exit(1)
		}
	}
}

func compress(folder, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	out := filepath.Join(folder, filepath.Base(file))
	r, err := zstd.NewReader(nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if there, err := os.ReadFile(out); err == nil {
		if there, err = r.DecodeAll(there, nil); err == nil && bytes.Equal(there, data) {
			return nil
		}
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return err
	}
	if err := os.WriteFile(out+".new", w.EncodeAll(data, nil), 0o644); err != nil {
		return err
	}
	return os.Rename(out+".new", out)
}
