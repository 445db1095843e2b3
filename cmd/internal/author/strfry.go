package author

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/wire"
)

// Actions of strfry.
const (
	sAccept = "accept"
	sReject = "reject"
	sShadow = "shadowReject"
)

// sifted is what a plugin answers to strfry.
type sifted struct {
	ID     string `json:"id"`
	Action string `json:"action"`
	Msg    string `json:"msg"`
}

// reasonFailed is what clients hear when nothing could be decided.
const reasonFailed = "error: the policy failed; try again later"

// RunStrfry answers strfry's questions with the module's verdicts, until r ends. An event
// of which the module has no opinion is accepted, since strfry asks one plugin
// alone, or refused if pass is false. Where the module fails, the event is refused.
func (r *Runner) RunStrfry(ctx context.Context, in io.Reader, out io.Writer, pass bool, log *slog.Logger) error {
	w := bufio.NewWriter(out)
	return eachLine("stdin", in, func(where string, text []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		answer, err := r.answerStrfry(ctx, where, text, pass)
		if err != nil {
			log.Error("this is not answered", "err", err)
			return nil
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		_, _ = w.Write(append(line, '\n'))
		return w.Flush()
	})
}

// answerStrfry answers one line. An error says that strfry would not have written it.
func (r *Runner) answerStrfry(ctx context.Context, where string, text []byte, pass bool) (*sifted, error) {
	l, err := parseLine(where, text)
	if err != nil {
		return nil, err
	}
	e, err := wire.ParseEvent(l["event"])
	if err != nil {
		return nil, fmt.Errorf("%s: event: %w", where, err)
	}
	q, err := Clock{}.ParseQuestion(where, text)
	if err != nil {
		return nil, err
	}
	a := r.Ask(ctx, q)
	return a.sifted(e.ID.String(), pass), nil
}

func (a *Answer) sifted(id string, pass bool) *sifted {
	if a.Err != nil {
		return &sifted{id, sReject, reasonFailed}
	}
	switch a.Action {
	case host.Accept:
		return &sifted{id, sAccept, ""}
	case host.Pass:
		if pass {
			return &sifted{id, sAccept, ""}
		}
		return &sifted{id, sReject, "blocked: no rule accepts this event"}
	case host.ShadowReject:
		return &sifted{id, sShadow, ""}
	case host.Hold:
		// strfry has no purgatory.
		return &sifted{id, sReject, "error: this event would have to wait for its git data, which this relay does not take"}
	}
	return &sifted{id, sReject, a.Reason}
}

// CheckSift returns why a module cannot decide without a relay: it reads what only a
// relay has. facts says whether there is a file of stored events.
func (r *Runner) CheckSift(facts bool) error {
	for _, name := range r.module.Imports() {
		group, _, _ := strings.Cut(name, ".")
		switch {
		case group == "git":
			return fmt.Errorf("the module %s asks for %s, which a plugin of strfry cannot: run it in Talon", r.source.Manifest.Name, name)
		case group == "store" && !facts:
			return fmt.Errorf("the module %s asks for %s, and a plugin of strfry does not see what is stored: give it the events with --facts, or run it in Talon",
				r.source.Manifest.Name, name)
		}
	}
	if !r.module.Calls(guest.Admit) {
		return errors.New("the module decides about no events with these settings: strfry has nothing to ask it")
	}
	return nil
}
