package author

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"talon/host"
	"talon/sdk/abi/manifest"
)

// Tested is the result of one vector.
type Tested struct {
	Where string // file and line
	Name  string
	Fuel  int64
	Err   error // nil: the answer is as it should be
}

// ReadVectors reads a file of vectors and checks each against the manifest.
func (s *Source) ReadVectors(name string, r io.Reader) ([]*Case, error) {
	var list []*Case
	err := Clock{}.Questions(name, r, func(q *Case) error {
		switch _, err := s.Manifest.Resolve(q.Vector.Config); {
		case !q.Wants:
			return fmt.Errorf("%s: want is missing: say what the module must answer, as in \"want\": {\"action\": \"reject\"}", q.Where)
		case err != nil:
			return fmt.Errorf("%s: %w", q.Where, err)
		case q.Then && len(list) == 0:
			return fmt.Errorf("%s: then goes on where the line before ended, and there is none", q.Where)
		case q.Then && q.Vector.Config != nil:
			return fmt.Errorf("%s: then goes on with the settings of the line before: leave config out", q.Where)
		}
		list = append(list, q)
		return nil
	})
	return list, err
}

// Test asks the questions of vectors, and reports each result. A vector begins with a new
// instance that remembers nothing, with the settings that it names, unless it goes on
// with those of the vector before. The error is not about the module.
func (s *Source) Test(ctx context.Context, vectors []*Case, o Options, report func(Tested)) error {
	if !s.decides() && !s.throttles() {
		return s.errNoPolicy()
	}
	o.setDefaults()
	operators, err := s.openSets(ctx, &o)
	if err != nil {
		return err
	}
	var r *Runner
	var refused error
	end := func() error {
		if r == nil {
			return nil
		}
		err := r.Close()
		r = nil
		return err
	}
	for _, q := range vectors {
		if !q.Then {
			if err := end(); err != nil {
				return err
			}
			r, refused = s.load(ctx, o, operators, q.Vector.Config, host.Service(q.Vector.At()))
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(err, end())
		}
		t := Tested{Where: q.Where, Name: q.Vector.Name, Err: refused}
		if refused == nil {
			t.Fuel, t.Err = r.test(ctx, q)
		}
		report(t)
	}
	return end()
}

// test asks, and compares the answer with the one that the vector wants.
func (r *Runner) test(ctx context.Context, q *Case) (fuel int64, err error) {
	if q.Vector.Policy() {
		a := r.Ask(ctx, q)
		return a.Fuel, a.check(&q.Vector)
	}
	answer, fuel, err := r.reduce(ctx, q)
	if err != nil {
		return fuel, err
	}
	return fuel, q.Vector.CheckAnswer(answer)
}

// check compares the answer with the one that the vector wants, as a client and an
// operator would see it.
func (a *Answer) check(v *manifest.Vector) error {
	if a.Err != nil {
		return a.Err
	}
	action := uint32(0)
	for manifest.ActionName(action) != a.Action.String() {
		action++
	}
	err := v.Check(action, a.Rule, a.Reason)
	if err == nil {
		err = v.CheckWake(a.Wake, a.Wait)
	}
	if err == nil {
		err = v.CheckLimits(a.Limits.Author, a.Limits.Repository, a.End)
	}
	if err != nil || a.Audience == nil {
		return err
	}
	_, set, _ := strings.Cut(a.Audience.Set, "/") // the host puts the name of the module in front
	return v.CheckAudience(manifest.Keys(a.Audience.Keys), set)
}
