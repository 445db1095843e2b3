package strategytest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/sdk/strategy"
	"talon/sdk/strategy/story"
)

var rewrite = flag.Bool("rewrite", false, "write what strategies say into their stories")

// Stories runs the files that a pattern matches, each as a subtest. A file has inputs, and the
// actions of a new strategy after them. Package [story] has the form of the files. With the flag
// -rewrite, the actions are written into the files instead of being compared.
func Stories(t *testing.T, pattern, manifestText string, make func() strategy.Strategy) {
	stories(t, pattern, func(t testing.TB, config map[string]any) (story.Step, error) {
		h, err := Configure(t, manifestText, make(), config)
		if err != nil {
			return nil, err
		}
		return h.step, nil
	})
}

// ModuleStories is [Stories] for a strategy that runs as a module, written in any language. load
// makes a new instance of it with settings, as an operator writes them.
func ModuleStories(t *testing.T, pattern string, load func(t testing.TB, config map[string]any) Step) {
	stories(t, pattern, func(t testing.TB, config map[string]any) (story.Step, error) { return story.Step(load(t, config)), nil })
}

func stories(t *testing.T, pattern string, load func(t testing.TB, config map[string]any) (story.Step, error)) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			played, err := story.Play(string(text), func(config map[string]any) (story.Step, error) { return load(t, config) })
			switch {
			case err != nil:
				t.Fatalf("%s: %v", file, err)
			case *rewrite:
				if err := os.WriteFile(file, []byte(played), 0o644); err != nil {
					t.Fatal(err)
				}
			case played != string(text):
				t.Errorf("%s tells another story; -rewrite writes it\n%s", file, story.Difference(string(text), played))
			}
		})
	}
}
