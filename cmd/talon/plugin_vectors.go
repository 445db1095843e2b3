package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
	"talon/internal/durable"
)

// vectorsFile is the file of a folder with more vectors than those of its manifest.
const vectorsFile = "vectors.jsonl"

func pluginTestCommand() *cobra.Command {
	var bench runOptions
	var native, rewrite bool
	cmd := &cobra.Command{
		Use:   "test [MODULE] [VECTORS.jsonl...] [STORY.txt...]",
		Short: "Test a module as a relay would, with vectors and stories",
		Long: `Test a module: what a relay asks before it lets a module decide, by compiled code and by an interpreter, with the vectors
of the manifest; then the vectors of files, one a line, ` + vectorsFile + ` beside the module if none is named. A line is a vector as
manifests have them, where "function" and "name" may be absent. With "then": true it goes on where the line before ended, with all
that the module remembers; else it begins anew, with the settings that it names.
A story is inputs of a strategy and, below them, its actions. Without files, those in the folder testdata beside a strategy are
played, in whatever language it is written.
MODULE is a .wasm file, or a folder, which is built first; without it, the folder in which you are.`,
		Example: `  talon plugin test
  talon plugin test words.wasm vectors.jsonl
  talon plugin test mine testdata/outage.txt --rewrite`,
	}
	bench.flags(cmd)
	cmd.Flags().BoolVar(&native, "native", false, "run the unit tests of a folder in Go too, as go test ./... does")
	cmd.Flags().BoolVar(&rewrite, "rewrite", false, "write the actions of the strategy into the stories, in place of comparing them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		module := "."
		if len(args) > 0 && !strings.HasSuffix(args[0], ".jsonl") && !isStory(args[0]) {
			module, args = args[0], args[1:]
		}
		return quoted(bench.test(module, args, native, rewrite))
	}
	return cmd
}

// isStory reports whether a file is a story, by its name.
func isStory(file string) bool { return strings.HasSuffix(file, ".txt") }

func (b *runOptions) test(path string, files []string, native, rewrite bool) error {
	source, o, err := b.find(path)
	if err != nil {
		return err
	}
	var stories []string
	if len(files) == 0 {
		if stories, err = source.Stories(); err != nil {
			return err
		}
		file := filepath.Join(filepath.Dir(source.File), vectorsFile)
		switch _, err := os.Stat(file); {
		case err == nil:
			files = append(files, file)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	var vectors []*author.Case
	for _, file := range files {
		if isStory(file) {
			stories = append(stories, file)
			continue
		}
		err := b.open(file, func(r io.Reader) error {
			list, err := source.ReadVectors(file, r)
			vectors = append(vectors, list...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return b.ask(source, vectors, stories, o, native, rewrite)
}

// play runs a story, and compares it with its file or writes the file again.
func (b *runOptions) play(source *author.Source, file string, rewrite bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	played, err := source.Play(b.cmd.Context(), string(text))
	switch {
	case err != nil || played == string(text):
		return err
	case rewrite:
		return durable.Write(file, []byte(played), 0o644)
	}
	return fmt.Errorf("the strategy tells another story (--rewrite writes it): %s", author.StoryDifference(string(text), played))
}

// ask tests and reports.
func (b *runOptions) ask(source *author.Source, vectors []*author.Case, stories []string, o author.Options, native, rewrite bool) error {
	w := b.cmd.OutOrStdout()
	good, bad := 0, 0
	own := len(source.Manifest.Vectors)
	if err := source.SelfTest(b.cmd.Context()); err != nil {
		if b.cmd.Context().Err() != nil {
			return err
		}
		bad++
		fmt.Fprintf(w, "FAIL  %s: %s\n", plain(source.File), plain(err.Error()))
	} else {
		good += own
		fmt.Fprintf(w, "ok    %s: the relay's own checks, and %s of the manifest\n", plain(source.File), counted(own, "vector"))
	}
	if len(vectors) > 0 {
		err := source.Test(b.cmd.Context(), vectors, o, func(t author.Tested) {
			if t.Err != nil {
				bad++
				fmt.Fprintf(w, "FAIL  %s: %s\n", plain(t.Where), plain(t.Err.Error()))
				return
			}
			good++
			fmt.Fprintf(w, "ok    %s: %s (fuel %d)\n", plain(t.Where), plain(t.Name), t.Fuel)
		})
		if err != nil {
			return err
		}
	}
	for _, file := range stories {
		if err := b.play(source, file, rewrite); err != nil {
			bad++
			fmt.Fprintf(w, "FAIL  %s: %s\n", plain(file), plainText(err.Error()))
			continue
		}
		good++
		fmt.Fprintf(w, "ok    %s: the story\n", plain(file))
	}
	if native {
		if err := author.Native(b.cmd.Context(), filepath.Dir(source.File), w); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%s failed, %d passed", counted(bad, "test"), good)
	}
	if good == 0 && !native {
		hint := ""
		if author.HasNative(filepath.Dir(source.File)) {
			hint = "; its own unit tests run with --native"
		}
		fmt.Fprintf(w, "there are no vectors: nothing was asked but whether the module answers at all%s\n", hint)
	}
	return nil
}

// plainText is like plain, and keeps the lines of a text and their indents.
func plainText(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeft(line, "\t")
		lines[i] = strings.Repeat("    ", len(line)-len(rest)) + plain(rest)
	}
	return strings.Join(lines, "\n")
}
