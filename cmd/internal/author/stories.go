package author

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
	"talon/sdk/strategy/story"
)

// storyPattern is where the folder of a strategy has its stories.
const storyPattern = "testdata/*.txt"

// plansSync reports whether the module is a strategy.
func (s *Source) plansSync() bool { return slices.Contains(s.Manifest.Worlds, manifest.WorldStrategy) }

// Stories returns the files with stories of a strategy beside it.
func (s *Source) Stories() ([]string, error) {
	if !s.plansSync() {
		return nil, nil
	}
	return filepath.Glob(filepath.Join(s.dir(), storyPattern))
}

// Play runs a story with a new instance of the strategy, and returns it with the answers that the
// strategy gives. An error says why the story cannot be played to its end.
func (s *Source) Play(ctx context.Context, text string) (played string, err error) {
	if !s.plansSync() {
		return "", fmt.Errorf("the module %s is no strategy, so it has no stories", s.Manifest.Name)
	}
	var m *guest.Module
	var r *guest.Reducer
	defer func() {
		if r != nil {
			r.Close()
		}
		if m != nil {
			_ = m.Close(context.WithoutCancel(ctx))
		}
	}()
	return story.Play(text, func(config map[string]any) (story.Step, error) {
		var err error
		m, err = Load(ctx, s.Wasm, guest.Options{
			Name: s.Manifest.Name, Grants: s.Sidecar.Grants, Config: config, Budgets: guest.BudgetsOf(&s.Sidecar.Budgets),
			Instances: 1, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return nil, err
		}
		if r, err = m.NewReducer(ctx); err != nil {
			return nil, err
		}
		return func(request []byte) ([]byte, error) {
			answer, _, err := r.Call(ctx, guest.Step, request, story.Start/1000)
			return answer, err
		}, nil
	})
}

// StoryDifference shows the first lines in which two texts of a story differ.
func StoryDifference(want, got string) string { return story.Difference(want, got) }
