package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
	"talon/host/admin"
	"talon/host/plugin"
)

func pluginRecordCommand() *cobra.Command {
	var ask admin.Record
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record the decisions of the running relay, to try your own modules on them",
		Long: `Write what the running relay decides to standard output, one decision a line: what was asked, which facts were read for it, and
the verdict. talon plugin replay, run, diff and test read such lines. It ends when the time is up or there are enough of them,
or with a signal; what came of it is on standard error. No decision waits for it.

Without --plugin, the verdicts are those of the whole chain. With it, they are those of one plugin, also one in shadow mode, about
what it was asked: talon plugin replay then says where your next version of it differs.

The lines hold what clients have sent, with their addresses. --redact content replaces the content of events by other words: what
is kept is whether it is empty, which ones are equal, and the length, rounded up to a power of two. --redact address replaces the
addresses of clients: which ones are equal, or in one IPv6 network, is kept. Tags, ids, keys and what a client says of its program stay as they are.`,
		Example: `  talon plugin record --plugin words --for 5m > live.jsonl
  talon plugin record --redact content,address --most 1000 > for-others.jsonl`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().DurationVar(&ask.For, "for", admin.DefaultRecordTime, "`time`, at most "+plugin.MaxRecordTime.String())
	cmd.Flags().IntVar(&ask.Max, "most", admin.DefaultRecordLines, fmt.Sprintf("`lines`, at most %d", plugin.MaxRecordLines))
	cmd.Flags().StringVar(&ask.Plugin, "plugin", "", "the `name` of one plugin, instead of the chain")
	cmd.Flags().StringVar(&ask.Redact, "redact", "", "`what` to replace: content, address, or both with a comma between them")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, _ []string) error {
		if ask.For <= 0 || ask.Max <= 0 {
			return fmt.Errorf("for %v and most %d: want more than nothing", ask.For, ask.Max)
		}
		said := cmd.ErrOrStderr()
		out := &lineCounter{to: cmd.OutOrStdout()}
		came, err := server.Record(cmd.Context(), ask, out, func() { fmt.Fprintln(said, "recording") })
		if err != nil && cmd.Context().Err() != nil {
			fmt.Fprintf(said, "%s recorded, until the signal\n", counted(out.lines, "line"))
			return nil
		}
		if err != nil {
			return err
		}
		writeRecorded(said, &came)
		return nil
	})
}

// lineCounter counts the lines that it writes.
type lineCounter struct {
	to    io.Writer
	lines int
}

func (c *lineCounter) Write(text []byte) (int, error) {
	c.lines += bytes.Count(text, []byte{'\n'})
	return c.to.Write(text)
}

// endings say why a recording ended.
var endings = map[string]string{
	"time": "the time is up", "count": "there are as many as were asked for", "bytes": "a recording can have no more bytes", "stopped": "the server stopped",
}

func writeRecorded(w io.Writer, r *plugin.Recorded) {
	var by []string
	for _, f := range slices.Sorted(maps.Keys(r.Functions)) {
		by = append(by, fmt.Sprintf("%s %d", plain(f), r.Functions[f]))
	}
	text := counted(r.Lines, "line") + " recorded, " + bytesText(r.Bytes)
	if len(by) > 0 {
		text += " (" + strings.Join(by, ", ") + ")"
	}
	fmt.Fprintln(w, text+": "+endings[r.Ended])
	for _, left := range []struct {
		n    int
		what string
	}{
		{r.Dropped, "left out, for they came faster than this was read"},
		{r.TooLarge, "left out, for their facts are more than a line may hold"},
		{r.Unseen, "recorded that rest also on git data, or on what a module remembers: a replay does not have it (\"unseen\" of the line)"},
	} {
		if left.n > 0 {
			fmt.Fprintf(w, "%s %s\n", counted(left.n, "decision"), left.what)
		}
	}
}

// watchEvery is how often a folder is looked at.
const watchEvery = 300 * time.Millisecond

func pluginReplayCommand() *cobra.Command {
	var bench runOptions
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
func (b *runOptions) readReplay(file string) (*author.Replay, error) {
	if err := b.meet(file); err != nil {
		return nil, err
	}
	replay := new(author.Replay)
	err := b.questions(file, func(q *author.Case) error {
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

func (b *runOptions) replay(ctx context.Context, module string, replay *author.Replay) error {
	source, o, err := b.find(module)
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
	writeTally(w, &r.Stats)
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
