package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

func pluginRunCommand() *cobra.Command {
	var bench runOptions
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "run [MODULE] FILE.jsonl",
		Short: "Show a module's verdicts about events, and the cost of each",
		Long: `Show the verdict of a module about each line of a file, and the fuel that it cost. The module remembers from line to line.
Events are not verified.

` + questionsHelp,
		Example: `  talon export --data ./data > events.jsonl && talon plugin run events.jsonl
  talon plugin run words.wasm --sidecar words.toml --facts stored.jsonl events.jsonl`,
		Args: cobra.RangeArgs(1, 2),
	}
	bench.flags(cmd)
	bench.clockFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a line of JSON for each")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "only the sums")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		module, file := moduleAndFile(args)
		if err := bench.meet(file); err != nil {
			return quoted(err)
		}
		r, err := bench.runner(module)
		if err != nil {
			return quoted(err)
		}
		defer r.Close()
		out := cmd.OutOrStdout()
		var tally author.Stats
		if !asJSON && !quiet {
			fmt.Fprintf(out, runFormat, "VERDICT", "FUEL", "LINE", "REASON")
		}
		err = bench.questions(file, func(q *author.Case) error {
			a := r.Ask(cmd.Context(), q)
			tally.Add(q, &a)
			switch {
			case asJSON:
				return json.NewEncoder(out).Encode(ranAs(q, &a))
			case !quiet:
				_, err := fmt.Fprintf(out, runFormat, plain(a.Verdict()), fmt.Sprint(a.Fuel), plain(q.Where), plain(a.Said()))
				return err
			}
			return nil
		})
		if err != nil {
			return quoted(err)
		}
		if !asJSON {
			writeTally(out, &tally)
		}
		if tally.Failed > 0 {
			return quoted(fmt.Errorf("no verdict about %d of %d, first %s", tally.Failed, tally.Asked, tally.FirstFailure))
		}
		return nil
	}
	return cmd
}

const runFormat = "%-24s  %9s  %s  %s\n"

// ran is one line of talon plugin run --json.
type ran struct {
	Where  string `json:"where"`
	Event  string `json:"event,omitempty"`
	Action string `json:"action,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
	Wake   string `json:"wake,omitempty"` // the filter of the event for which the event is held
	Wait   int64  `json:"wait,omitempty"` // for how many seconds; 0 is what the server chooses
	Fuel   int64  `json:"fuel"`
	Error  string `json:"error,omitempty"`
}

func ranAs(q *author.Case, a *author.Answer) ran {
	line := ran{Where: q.Where, Event: q.Event(), Fuel: a.Fuel}
	if a.Err != nil {
		line.Error = a.Err.Error()
		return line
	}
	line.Action, line.Rule, line.Reason = a.Action.String(), a.Rule, a.Reason
	line.Wake, line.Wait = a.Wake, a.Wait
	return line
}

func writeTally(w io.Writer, t *author.Stats) {
	p50, p99, limit := t.Fuel()
	fmt.Fprintf(w, "\n%s; fuel p50 %d, p99 %d, most %d\n", counted(t.Asked, "line"), p50, p99, limit)
	for _, c := range t.Verdicts() {
		fmt.Fprintf(w, "%9d  %s\n", c.Count, plain(c.Verdict))
	}
}
