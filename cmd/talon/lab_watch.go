package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
)

func labWatchCommand() *cobra.Command {
	var o labOptions
	var speed float64
	cmd := &cobra.Command{
		Use:   "watch SCENARIO",
		Short: "Watch one run, slowed",
		Long: `Run one seed of a scenario and show what happens: faults, what is stored, and how much of what is wanted is here. Without --speed it takes about a minute.

On a terminal one line is kept up to date; elsewhere, and with --speed 0, there is a line for each step of the time.`,
		Example: `  talon lab watch outages --strategy layered-v5 --throttle polite --speed 3600`,
		Args:    cobra.ExactArgs(1),
	}
	o.flags(cmd)
	cmd.Flags().Float64Var(&speed, "speed", -1, "virtual `seconds` in a second; 0: as fast as it goes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		variants, err := o.variants(cmd.Context(), args[0], 1, cmd.ErrOrStderr())
		defer o.close()
		if err != nil {
			return err
		}
		if len(variants) != 1 {
			return fmt.Errorf("these are %d variants: want one strategy, one throttle at most, and one value of each key", len(variants))
		}
		v := variants[0]
		level := result.Level(o.level)
		if level == "" {
			level = result.Level(v.Scenario.Level)
		}
		if speed < 0 {
			speed = time.Duration(v.Scenario.Duration).Seconds() / 60
		}
		w := &labWatch{ctx: cmd.Context(), w: cmd.OutOrStdout(), speed: speed, begun: time.Now(), live: terminal(cmd.OutOrStdout()) && speed > 0}
		r, err := engine.Run(cmd.Context(), engine.Config{World: world.Draw(v.Scenario, o.first), Level: level, Strategy: v.Strategy, Throttle: v.Throttle, Watch: w.show})
		if err != nil {
			return err
		}
		return w.end(r)
	}
	return cmd
}

// labWatch shows a run while it goes on.
type labWatch struct {
	ctx    context.Context
	w      io.Writer
	speed  float64
	begun  time.Time
	live   bool // one line is kept up to date
	shown  time.Time
	stored int // since the last line
}

// show shows how far a run is, and waits until that is so.
func (w *labWatch) show(p engine.Progress) {
	if w.speed > 0 {
		due := w.begun.Add(time.Duration(float64(p.Now) / w.speed))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-w.ctx.Done():
			}
		}
	}
	line := fmt.Sprintf("%12v  %6.2f %% here, %d wanted  %s", p.Now.Round(time.Second), 100*share(p.Here, p.Wanted), p.Wanted, counted(p.Connections, "connection"))
	switch {
	case p.Stored:
		w.stored++
		if w.live && time.Since(w.shown) > 50*time.Millisecond {
			w.shown = time.Now()
			fmt.Fprintf(w.w, "\r\x1b[K%s", line)
		}
	case p.Line != "":
		w.print(fmt.Sprintf("%12v  %s", p.Now.Round(time.Second), p.Line))
	case w.live:
		fmt.Fprintf(w.w, "\r\x1b[K%s", line)
	default:
		w.print(fmt.Sprintf("%s, %d new", line, w.stored))
		w.stored = 0
	}
}

func (w *labWatch) print(line string) {
	if w.live {
		fmt.Fprint(w.w, "\r\x1b[K")
	}
	fmt.Fprintln(w.w, plain(line))
}

func (w *labWatch) end(r *result.Run) error {
	w.print(fmt.Sprintf("%s after %v", r.End.How, r.End.At.Duration()))
	for _, f := range r.Findings {
		w.print(f.Invariant + ": " + f.Text)
	}
	if r.End.How != result.Finished {
		return errors.New(plain(r.End.Reason))
	}
	return nil
}

// share is a part of a whole; all of nothing is 1.
func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}
