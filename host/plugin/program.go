package plugin

import (
	"context"
	"strings"
	"time"

	"talon/host"
	"talon/host/plugin/guest"
)

const (
	programPlace = 50     // where its side-car does not say
	programRule  = "exec" // of all it says: its messages are not for machines
)

// askProgram asks a program about an event.
func (g *generation) askProgram(ctx context.Context, q *question, facts *host.FactReader) (host.Ruling, error) {
	begun := time.Now()
	var answer programAnswer
	var err error
	facts.Wait(func() { answer, err = g.program.admit(ctx, q.item, q.now) })
	if f := asProgramFailure(err); f != nil {
		g.meters.guests.Failed(g.name, string(f.cause))
	}
	if err != nil {
		return host.Ruling{}, err
	}
	ruling := host.Ruling{Action: answer.Action, Rule: programRule, Module: g.name}
	switch answer.Action {
	case host.Accept:
		if !g.file.Program.Accepts {
			ruling.Action = host.Pass
		}
	case host.Reject:
		ruling.Reason = guest.Reason(host.Reject, strings.ToValidUTF8(answer.Message, "\uFFFD"))
	}
	g.meters.guests.Asked(g.name, q.function, time.Since(begun), &ruling, q.source)
	return ruling, nil
}
