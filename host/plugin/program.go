package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"talon/host"
	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// A side-car can name a program instead of lying beside a module. Its source has no
// module: the history keeps an empty one for it.

const (
	programPlace   = 50 // where its side-car does not say
	programVersion = "exec"
	programRule    = "exec" // of all it says: its messages are not for machines
)

// errExec says why a program does not run.
var errExec = errors.New("the side-car names a program (exec), and programs are off: talon serve --allow-exec true lets the folder of plugins start them, with all the rights of the relay")

var emptySum = func() string {
	sum := sha256.Sum256(nil)
	return hex.EncodeToString(sum[:])
}()

// programs returns the entries that can be plugins: those with a module, and those
// whose side-car names a program. What was said against the latter goes.
// REQUIRES: changing.
func (r *Registry) programs(entries []folder.Entry, problems []folder.Problem) ([]folder.Entry, []folder.Problem) {
	var list []folder.Entry
	alone := make(map[string]bool) // files that need no module
	for _, e := range entries {
		if e.Wasm == nil {
			if !r.isProgram(e) {
				continue
			}
			alone[filepath.Base(e.Sidecar.Path)] = true
		}
		list = append(list, e)
	}
	if len(alone) == 0 {
		return list, problems
	}
	var rest []folder.Problem
	for _, p := range problems {
		if !alone[p.Name] {
			rest = append(rest, p)
		}
	}
	return list, rest
}

// isProgram reports whether a side-car without a module names a program. What cannot
// be read goes on being what it was.
func (r *Registry) isProgram(e folder.Entry) bool {
	text, err := folder.Read(e.Sidecar, maxSidecar)
	if err == nil {
		var file *sidecar.File
		if file, err = sidecar.Parse(text); err == nil {
			return file.Program != nil
		}
	}
	s := r.slots[e.Name]
	return s != nil && s.program()
}

// program reports whether what runs under the name, or was refused last, is a
// program.
func (s *slot) program() bool {
	return s.applied.program || s.refused != nil && s.refused.key.program ||
		s.record.Current != nil && s.record.Current.Wasm == emptySum
}

// startProgram makes the generation one of a program, of which nothing runs before it
// is asked.
func (r *Registry) startProgram(g *generation, s *source) (err error) {
	switch {
	case s.wasm != nil:
		return errors.New("the side-car names a program (exec), and there is a module: want one of the two")
	case !r.o.AllowExec:
		return errExec
	case len(r.o.Signers) > 0:
		return errors.New("the side-car names a program (exec), which nobody can sign, and --plugin-signers lets only signed modules run")
	}
	p := g.file.Program
	g.program, err = newProcessPool(programOptions{
		Name: g.name, Path: p.Path, Timeout: time.Duration(p.TimeoutMS) * time.Millisecond, Processes: p.Processes, Log: r.o.Log, Clock: r.o.Now,
	})
	g.position = programPlace
	if g.file.Place != nil {
		g.position = *g.file.Place
	}
	return err
}

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

// describeProgram is what an operator sees of a program that runs.
func (g *generation) describeProgram() *Running {
	p := g.file.Program
	return &Running{
		Generation: g.number,
		Since:      g.since,
		Manifest:   filepath.Base(p.Path),
		Version:    programVersion,
		Summary:    "A plugin of strfry.",
		Worlds:     []string{manifest.WorldPolicy},
		Place:      g.position,
		Functions:  []string{guest.Admit.String()},
		Instances:  g.program.running(),
		Program:    &Program{Path: p.Path, TimeoutMS: p.TimeoutMS, Processes: p.Processes, OnAccept: onAccept(p)},
	}
}

func onAccept(p *sidecar.Program) string {
	if p.Accepts {
		return host.Accept.String()
	}
	return host.Pass.String()
}

// calls reports whether the plugin is asked by the function.
func (g *generation) calls(f guest.Func) bool {
	if g.program != nil || g.absent {
		return f == guest.Admit
	}
	return g.module.Calls(f)
}

// about is what the plugin says about the relay.
func (g *generation) about() host.Description {
	if g.program != nil || g.absent {
		return host.Description{}
	}
	return g.module.About()
}

// version is what the plugin calls this state of itself.
func (g *generation) version() string {
	if g.program != nil {
		return programVersion
	}
	if g.module == nil {
		return "" // it is off
	}
	return g.module.Manifest().Release
}
