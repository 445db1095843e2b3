package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// said is what git said of itself: for all repositories of a Root that have the same
// format it is the same.
type said struct {
	mu      sync.Mutex // guards what follows
	fetches [2][]byte  // all of upload-pack's first words in version 2
}

// pushCan is what a push can be here, but for the format. Without push options, and
// without reports of refs that became others.
const pushCan = "report-status delete-refs side-band-64k quiet atomic ofs-delta"

// Greet returns the first words of a service without git, or with what git said of
// itself once for all repositories of a format. It reports false where git must be asked
// (see Advertise): for fetches in versions 0 and 1, and of repositories that are not as
// Talon makes them.
func (r *Repo) Greet(ctx context.Context, s Service, v Protocol) ([]byte, bool, error) {
	if err := r.mustExist(); err != nil {
		return nil, false, err
	}
	if r.git.plain {
		return nil, false, nil
	}
	if s == ReceivePack {
		text, err := r.greetPush(ctx, v)
		return text, err == nil, err
	}
	store, borrows, err := r.shared()
	if err != nil || !borrows || v != 2 {
		return nil, false, err
	}
	text, err := r.ownWords(ctx, &r.root.said.fetches[store.format], v)
	return text, err == nil, err
}

// greetPush lists the refs as git receive-pack does.
func (r *Repo) greetPush(ctx context.Context, v Protocol) ([]byte, error) {
	format, err := r.Format(ctx)
	if err != nil {
		return nil, err
	}
	refs, err := r.tips(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(refs))
	if len(names) == 0 {
		// A ref that stands for none.
		names = []string{"capabilities^{}"}
		refs[names[0]] = strings.Repeat("0", idLength(format))
	}
	var text []byte
	if v == 1 {
		text = appendPkt(text, "version 1\n")
	}
	can := "\x00" + pushCan + " object-format=" + format.String() + " agent=talon"
	for _, name := range names {
		text = appendPkt(text, refs[name]+" "+name+can+"\n")
		can = ""
	}
	return append(text, "0000"...), nil
}

// ownWords asks git what upload-pack says of itself, once.
func (r *Repo) ownWords(ctx context.Context, kept *[]byte, v Protocol) ([]byte, error) {
	r.root.said.mu.Lock()
	defer r.root.said.mu.Unlock()
	if *kept != nil {
		return *kept, nil
	}
	p, err := r.Advertise(ctx, UploadPack, v)
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(p.Out)
	if err := errors.Join(err, p.Wait()); err != nil {
		return nil, err
	}
	*kept = out
	return out, nil
}

// idLength is the length of an object id in hex digits.
func idLength(f Format) int { return [...]int{SHA1: 40, SHA256: 64}[f] }

// appendPkt appends a pkt-line, which is not too long: the name of a ref is bounded.
func appendPkt(text []byte, line string) []byte {
	return append(fmt.Appendf(text, "%04x", len(line)+4), line...)
}
