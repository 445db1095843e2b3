package runner

import (
	"context"
	"slices"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
)

// shrink looks for a shorter prefix of a run that breaks the same invariant: faults and
// events are taken away, in halves first and then in smaller parts, as long as what is left
// still shows it. It makes at most the given number of runs.
func shrink(ctx context.Context, cfg engine.Config, broken *result.Run, limit int) {
	i := slices.IndexFunc(broken.Findings, func(f result.Finding) bool { return f.Prefix != nil })
	if i < 0 {
		return
	}
	s := &shrinking{ctx: ctx, cfg: cfg, name: broken.Findings[i].Invariant, best: *broken.Findings[i].Prefix, left: limit}
	s.cfg.Trace, s.cfg.Relays, s.cfg.Watch = "", false, nil
	for {
		before := len(s.best.Events) + len(s.best.Faults)
		s.reduce(func(p *result.Prefix) *[]uint32 { return &p.Faults })
		s.reduce(func(p *result.Prefix) *[]uint32 { return &p.Events })
		if s.left <= 0 || len(s.best.Events)+len(s.best.Faults) == before {
			break
		}
	}
	broken.Findings[i].Prefix = &s.best
}

type shrinking struct {
	ctx  context.Context
	cfg  engine.Config
	name string // of the invariant
	best result.Prefix
	left int // runs
}

// reduce takes parts of a list away, smaller and smaller ones.
func (s *shrinking) reduce(of func(*result.Prefix) *[]uint32) {
	for size := (len(*of(&s.best)) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(*of(&s.best)); {
			if s.left <= 0 || s.ctx.Err() != nil {
				return
			}
			list := *of(&s.best)
			try := s.best
			*of(&try) = slices.Delete(slices.Clone(list), from, min(len(list), from+size))
			if !s.shows(try) {
				from += size
			}
		}
	}
}

// shows reports whether a prefix breaks the invariant, and keeps it if it does.
func (s *shrinking) shows(p result.Prefix) bool {
	s.left--
	cfg := s.cfg
	cfg.Only = &p
	one, err := engine.Run(s.ctx, cfg)
	if err != nil || one.End.How != result.BrokenInvariant {
		return false
	}
	i := slices.IndexFunc(one.Findings, func(f result.Finding) bool { return f.Prefix != nil && f.Invariant == s.name })
	if i < 0 {
		return false
	}
	s.best = p
	s.best.Until = min(p.Until, one.Findings[i].Prefix.Until)
	return true
}
