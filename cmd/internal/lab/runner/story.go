package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host/plugin/guest"
	"talon/sdk/strategy/story"
)

// Story replays a finding, and returns as a story what its Talon's strategy saw and did. Remarks at the
// top say what it shows, and whether the strategy does the same in the story.
func Story(ctx context.Context, v *Variant, run *result.Run, f *result.Finding) (string, error) {
	number := 0 // of the Talon
	if name, ok := strings.CutPrefix(f.Relay, "talon-"); ok {
		_, _ = fmt.Sscan(name, &number)
	}
	var recording story.Recording
	again, err := replay(ctx, v, run, f.Prefix, func(talon int, request, answer []byte) {
		if talon == number {
			recording.Add(request, answer)
		}
	})
	if err != nil {
		return "", err
	}
	// A part may show it at another time, and with another value.
	shown := f
	if i := slices.IndexFunc(again.Findings, func(o result.Finding) bool { return o.Invariant == f.Invariant }); i >= 0 {
		shown = &again.Findings[i]
	}
	text, err := recording.Text(shown.At.Duration().Milliseconds())
	if err != nil {
		return "", err
	}
	var head strings.Builder
	fmt.Fprintf(&head, "# %s, %s, seed %d, after %v: %s: %s\n", run.Scenario.Name, run.Variant(), run.Seed, shown.At.Duration(), shown.Invariant, shown.Text)
	if shown == f {
		fmt.Fprintf(&head, "# The replay breaks nothing.\n")
	}
	var config strings.Builder
	for _, set := range run.Strategy.Config {
		fmt.Fprintf(&config, "config %s %s\n", set.Key, strings.Trim(set.Value, "[]"))
	}
	text = config.String() + text
	played, err := story.Play(text, func(map[string]any) (story.Step, error) {
		i, err := v.Strategy.New(ctx)
		if err != nil {
			return nil, err
		}
		return func(request []byte) ([]byte, error) {
			answer, _, err := i.Call(ctx, guest.Step, request, story.Start/1000)
			return answer, err
		}, nil
	})
	switch {
	case err != nil:
		fmt.Fprintf(&head, "# It cannot be played as a story: %v\n", err)
	case played != text:
		fmt.Fprintf(&head, "# This is what the strategy did in the lab. In the story it does otherwise, since a story has less of its inputs;\n"+
			"# talon plugin test --rewrite writes that: %s\n", strings.NewReplacer("\n\t", "\n#     ", "\n", "\n# ").Replace(story.Difference(text, played)))
	}
	return head.String() + text, nil
}

// replay runs the part of a world that a finding shows, and gives each input of a Talon's strategy
// with its answer to record.
func replay(ctx context.Context, v *Variant, run *result.Run, only *result.Prefix, record func(talon int, request, answer []byte)) (*result.Run, error) {
	return engine.Run(ctx, engine.Config{
		World: world.Draw(v.Scenario, run.Seed), Level: run.Level, Strategy: v.Strategy, Throttle: v.Throttle, Only: only, Record: record,
	})
}
