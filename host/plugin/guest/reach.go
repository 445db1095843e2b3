package guest

import (
	"context"

	"talon/host"
)

// State is what a plugin remembers. All its instances and generations share it.
// Keys and values are valid only during the call, and what Get returns must not
// change. Times are unix seconds; ttl is in seconds, 0 for ever.
type State interface {
	// Get returns the value of a key, and whether there is one.
	Get(key []byte, now int64) ([]byte, bool)

	// Set keeps a value. It reports false if there is no room.
	Set(key, value []byte, ttl, now int64) bool

	Delete(key []byte)

	// Incr adds delta to a counter and returns what it is then.
	Incr(key []byte, delta, ttl, now int64) int64

	// Take takes n tokens of a bucket that holds up to burst and gets one back every
	// perMillis milliseconds. It returns 0 if they were taken, else in how many
	// milliseconds they would be there, or -1 if never.
	Take(key []byte, n, burst, perMillis, now int64) int64
}

// Sets are the lists that a plugin can look things up in.
type Sets interface {
	// Contains reports whether the set has the member, and whether there is such a
	// set.
	Contains(name, member []byte) (yes, known bool)
}

// Git is the repositories. One that does not exist has no objects and no refs.
type Git interface {
	// Has reports whether the repository has the object, given as hex digits; followed
	// by ^{commit}, whether that is a commit, rather than a tag of one or anything
	// else; and for "" whether there is such a repository.
	Has(ctx context.Context, repo host.Address, object string) (bool, error)

	// Ref returns the object that the ref names, as hex digits, and whether there is
	// such a ref.
	Ref(ctx context.Context, repo host.Address, ref string) (object string, ok bool, err error)
}

// noState remembers nothing: there is no room for it.
type noState struct{}

func (noState) Get([]byte, int64) ([]byte, bool)             { return nil, false }
func (noState) Set([]byte, []byte, int64, int64) bool        { return false }
func (noState) Delete([]byte)                                {}
func (noState) Incr(_ []byte, delta int64, _, _ int64) int64 { return delta }

func (noState) Take(_ []byte, n, burst, _, _ int64) int64 {
	if n > burst {
		return -1
	}
	return 0
}
