package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

// watchEvery is how often a folder is looked at.
const watchEvery = 300 * time.Millisecond

func pluginReplayCommand() *cobra.Command {
	var bench workbench
	var watch bool
	cmd := &cobra.Command{
		Use:   "replay [MODULE] FILE.jsonl",
		Short: "Ask a module about a file again and again while you work on it",
		Long: `Ask a module about each line of a file, and show the sums. Where lines say which answer they want, as those of talon plugin
record do, show which answers are others than that. With --watch, build and ask again whenever a file of the module or FILE
changes, and show which answers are others than before.

` + questionsHelp,
		Example: `  talon plugin record --plugin words > live.jsonl
  talon plugin replay --watch live.jsonl`,
		Args: cobra.RangeArgs(1, 2),
	}
	bench.flags(cmd)
	bench.clockFlag(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on until a signal comes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		module, file := moduleAndFile(args)
		replay, err := bench.readReplay(file)
		if err != nil {
			return quoted(err)
		}
		ctx := cmd.Context()
		if !watch {
			return quoted(bench.replay(ctx, module, replay))
		}
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		read := modified(file)
		author.Watch(ctx, module, tick.C, func() {
			err := error(nil)
			if now := modified(file); now != read {
				// Another recording: what was said before is no matter any more.
				var again *author.Replay
				if again, err = bench.readReplay(file); err == nil {
					replay, read = again, now
				}
			}
			if err == nil {
				err = bench.replay(ctx, module, replay)
			}
			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "talon: "+quoted(err).Error())
			}
		}, file)
		return nil
	}
	return cmd
}

// readReplay reads the lines of a file.
func (b *workbench) readReplay(file string) (*author.Replay, error) {
	if err := b.meet(file); err != nil {
		return nil, err
	}
	replay := new(author.Replay)
	err := b.questions(file, func(q *author.Question) error {
		if len(replay.Questions) == benchLines {
			return fmt.Errorf("%s has more than %d lines: give a part of it, such as head -%[2]d makes", file, benchLines)
		}
		replay.Questions = append(replay.Questions, q)
		return nil
	})
	return replay, err
}

// modified tells whether a file has changed.
func modified(file string) (at struct {
	size int64
	time time.Time
}) {
	if info, err := os.Stat(file); err == nil {
		at.size, at.time = info.Size(), info.ModTime()
	}
	return at
}

func (b *workbench) replay(ctx context.Context, module string, replay *author.Replay) error {
	source, err := author.Find(ctx, module, b.sidecar, b.cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	o, err := b.options()
	if err != nil {
		return err
	}
	found, err := replay.Run(ctx, source, o)
	if err != nil {
		return err
	}
	return writeReplay(b.cmd.OutOrStdout(), found)
}

func writeReplay(w io.Writer, r *author.Replayed) error {
	writeTally(w, &r.Tally)
	for _, c := range []struct {
		with   *author.Comparison
		before string
	}{{r.Recorded, "RECORDED"}, {r.Changes, "BEFORE"}} {
		if c.with == nil {
			continue
		}
		fmt.Fprintln(w)
		if c.with.Differ == 0 {
			fmt.Fprintf(w, "as %s: ", strings.ToLower(c.before))
		}
		if err := writeComparison(w, c.with, []string{c.before, "NOW"}); err != nil {
			return err
		}
	}
	if r.Unseen > 0 {
		fmt.Fprintf(w, "%d of those that differ from the recording rested on git data, or on what a module remembered: the recording does not have it\n", r.Unseen)
	}
	if r.Failed > 0 {
		return fmt.Errorf("no verdict about %d of %d, first %s", r.Failed, r.Asked, r.FirstFailure)
	}
	return nil
}
