package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/plugin"
)

func pluginRecordCommand() *cobra.Command {
	var ask admin.Record
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Write what the running relay decides, to try your own modules on",
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
	cmd.Flags().IntVar(&ask.Most, "most", admin.DefaultRecordLines, fmt.Sprintf("`lines`, at most %d", plugin.MaxRecordLines))
	cmd.Flags().StringVar(&ask.Plugin, "plugin", "", "the `name` of one plugin, instead of the chain")
	cmd.Flags().StringVar(&ask.Redact, "redact", "", "`what` to replace: content, address, or both with a comma between them")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, _ []string) error {
		if ask.For <= 0 || ask.Most <= 0 {
			return fmt.Errorf("for %v and most %d: want more than nothing", ask.For, ask.Most)
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
