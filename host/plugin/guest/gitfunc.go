package guest

import (
	"bytes"
	"context"

	"github.com/tetratelabs/wazero/api"

	"talon/host"
	"talon/sdk/abi"
)

// Git gives access to the repositories. A missing repository counts as empty: without
// objects and refs.
type Git interface {
	// Has reports whether the repository has the object, given as hex digits; followed
	// by ^{commit}, whether that is a commit, rather than a tag of one or anything
	// else; and for "" whether there is such a repository.
	Has(ctx context.Context, repo host.Address, object string) (bool, error)

	// Ref returns the object that the ref names, as hex digits, and whether there is
	// such a ref.
	Ref(ctx context.Context, repo host.Address, ref string) (object string, ok bool, err error)
}

// announcement is the kind of the event whose address names a repository
// (NIP-34).
const announcement = 30617

// maxRef bounds the name of a ref.
const maxRef = 1 << 10

// readRepo reads the address of a repository. It reports false for anything
// else: no repository has it.
func readRepo(mem api.Memory, addr, length uint64) (host.Address, bool) {
	text := read(mem, addr, length)
	if len(text) > maxReference {
		return host.Address{}, false
	}
	repo, ok := host.ParseAddress(string(text))
	return repo, ok && repo.Kind == announcement
}

// isObject reports whether text is the name of a git object: SHA-1 or SHA-256 as
// hex digits.
func isObject(text []byte) bool {
	if len(text) != 40 && len(text) != 64 {
		return false
	}
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isAsked reports whether text asks for an object, for an object that is a commit,
// or, empty, for the repository itself.
func isAsked(text []byte) bool {
	object, _ := bytes.CutSuffix(text, []byte(abi.OfCommit))
	return len(text) == 0 || isObject(object)
}

func gitHas(c *call, mem api.Memory, stack []uint64) {
	c.reportUse(abi.CapGitHas)
	repo, ok := readRepo(mem, stack[0], stack[1])
	object := read(mem, stack[2], stack[3])
	var yes bool
	if ok && isAsked(object) && c.inst.module.git != nil && !c.read(abi.CapGitHas, func(ctx context.Context) (err error) {
		c.wait(func() { yes, err = c.inst.module.git.Has(ctx, repo, string(object)) })
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	stack[0] = boolResult(yes)
}

func gitRef(c *call, mem api.Memory, stack []uint64) {
	c.reportUse(abi.CapGitRef)
	repo, ok := readRepo(mem, stack[0], stack[1])
	ref := read(mem, stack[2], stack[3])
	var object string
	var found bool
	if ok && len(ref) <= maxRef && c.inst.module.git != nil && !c.read(abi.CapGitRef, func(ctx context.Context) (err error) {
		c.wait(func() { object, found, err = c.inst.module.git.Ref(ctx, repo, string(ref)) })
		return err
	}) {
		stack[0] = i32Result(abi.Unavailable)
		return
	}
	if !found {
		stack[0] = i32Result(abi.NotFound)
		return
	}
	stack[0] = c.deliver(mem, stack[4], stack[5], []byte(object))
}
