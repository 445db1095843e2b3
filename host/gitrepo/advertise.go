package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
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

// fetchCan is what a fetch can be here in versions 0 and 1, but for the format and HEAD:
// what git 2.39 says where there are refs.
const fetchCan = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not deepen-relative " +
	"no-progress include-tag multi_ack_detailed allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done filter"

// AdvertiseRefs returns the first words of a service without git, or with what git said of
// itself once for all repositories of a format. It reports false where git must be asked
// (see Advertise): for fetches in versions 0 and 1 where there are refs, and of
// repositories that are not as Talon makes them. Of an empty repository git says nothing
// before version 2.41.
func (r *Repo) AdvertiseRefs(ctx context.Context, s Service, v Protocol) ([]byte, bool, error) {
	if err := r.mustExist(); err != nil {
		return nil, false, err
	}
	if r.git.plain {
		return nil, false, nil
	}
	if s == ReceivePack {
		text, err := r.advertisePush(ctx, v)
		return text, err == nil, err
	}
	if v != 2 {
		return r.advertiseEmpty(ctx, v)
	}
	store, borrows, err := r.shared()
	if err != nil || !borrows {
		return nil, false, err
	}
	text, err := r.ownWords(ctx, &r.root.said.fetches[store.format], v)
	return text, err == nil, err
}

// advertiseEmpty says what a fetch can be of a repository without refs. It reports false for
// others.
func (r *Repo) advertiseEmpty(ctx context.Context, v Protocol) ([]byte, bool, error) {
	if info, err := os.Stat(filepath.Join(r.dir, "packed-refs")); err == nil && info.Size() > maxHeader {
		return nil, false, nil // many refs are not read for this
	}
	refs, head, err := r.refFiles(ctx)
	if errors.Is(err, errUnusual) {
		return nil, false, nil
	}
	if err != nil || len(refs) > 0 {
		return nil, false, err
	}
	format, err := r.Format(ctx)
	if err != nil {
		return nil, false, err
	}
	can := fetchCan
	if head != "" {
		can += " symref=HEAD:" + head
	}
	return advertise(v, format, can, noRefs, map[string]string{noRefs[0]: zeros(format)}), true, nil
}

// maxHeader is more than packed-refs has without a ref.
const maxHeader = 80

// noRefs is what stands for the refs of a repository that has none.
var noRefs = []string{"capabilities^{}"}

func zeros(f Format) string { return strings.Repeat("0", idLength(f)) }

// advertisePush lists the refs as git receive-pack does.
func (r *Repo) advertisePush(ctx context.Context, v Protocol) ([]byte, error) {
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
		names = noRefs
		refs[names[0]] = zeros(format)
	}
	return advertise(v, format, pushCan, names, refs), nil
}

// advertise writes refs and, with the first of them, capabilities.
func advertise(v Protocol, format Format, can string, names []string, refs map[string]string) []byte {
	var text []byte
	if v == 1 {
		text = appendPkt(text, "version 1\n")
	}
	can = "\x00" + can + " object-format=" + format.String() + " agent=talon"
	for _, name := range names {
		text = appendPkt(text, refs[name]+" "+name+can+"\n")
		can = ""
	}
	return append(text, "0000"...)
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
