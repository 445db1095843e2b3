package plugin

import (
	"context"

	"talon/host/plugin/folder"
)

// others are the other servers that run the same plugins as this one. none and *shared are the two
// forms.
type others interface {
	// there reports whether there are any.
	there() bool

	// startFirst loads the plugins for the first time. followOthers does what the others ask for,
	// until ctx ends. dropPrepared releases what was prepared and does not run.
	startFirst(ctx context.Context) error
	followOthers(ctx context.Context) error
	dropPrepared()

	// newProposal makes a proposal of what is wanted and built. It returns false if this server need
	// ask nobody, and nil if that is what runs. agree returns when all run it. REQUIRES: changing,
	// for newProposal; not changing, for agree.
	newProposal(w *wanted) (*proposal, bool)
	agree(ctx context.Context, p *proposal) error

	// switchTo makes a generation decide, which all have agreed on.
	switchTo(n int64)

	// agreed returns what all run under a name, nil if they run nothing. REQUIRES: changing.
	agreed(name string) *folder.Generation

	// notCurrent returns why this server must not decide, nil if it may.
	notCurrent() error

	// module returns the module with a SHA-256, in hex.
	module(ctx context.Context, sha256 string) ([]byte, error)
}

// none is the others of a server that chooses its plugins by itself.
type none struct{ r *Registry }

func (n none) there() bool                            { return false }
func (n none) startFirst(ctx context.Context) error   { return n.r.start(ctx) }
func (n none) followOthers(context.Context) error     { return nil }
func (n none) dropPrepared()                          {}
func (n none) newProposal(*wanted) (*proposal, bool)  { return nil, false }
func (n none) agree(context.Context, *proposal) error { return nil }
func (n none) switchTo(int64)                         {}
func (n none) agreed(string) *folder.Generation       { return nil }
func (n none) notCurrent() error                      { return nil }

func (n none) module(context.Context, string) ([]byte, error) { return nil, errNoHistory }
