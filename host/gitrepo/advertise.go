package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Service is one of the two sides of git's protocol. The first is the git program's, the
// second this package's and its callers', but with a plain git.
type Service uint8

const (
	UploadPack  Service = iota // clones and fetches
	ReceivePack                // pushes
)

func (s Service) String() string { return [...]string{"upload-pack", "receive-pack"}[s] }

// Protocol is the version of git's protocol that a client asks for.
type Protocol uint8

func (p Protocol) env() []string {
	switch p {
	case 1:
		return []string{"GIT_PROTOCOL=version=1"}
	case 2:
		return []string{"GIT_PROTOCOL=version=2"}
	}
	return nil
}

// Advertise starts a service that advertises the refs of the repository.
func (r *Repo) Advertise(ctx context.Context, s Service, v Protocol) (*Process, error) {
	return r.serve(ctx, v, s.String(), "--stateless-rpc", "--http-backend-info-refs", ".")
}

// Upload starts upload-pack to answer one request, which its user writes to In.
func (r *Repo) Upload(ctx context.Context, v Protocol) (*Process, error) {
	return r.serve(ctx, v, UploadPack.String(), "--stateless-rpc", "--strict", ".")
}

func (r *Repo) serve(ctx context.Context, v Protocol, args ...string) (*Process, error) {
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	p, err := r.git.start(ctx, r.dir, v.env(), args...)
	return p, r.orGone(err)
}

// ReceivePack starts receive-pack to answer one push, which its user writes to In. In
// reflogs it is anonymous, from an address, where our environment names nobody.
// REQUIRES: the repository is served by a plain git.
func (r *Repo) ReceivePack(ctx context.Context, v Protocol, from netip.Addr) (*Process, error) {
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	env := v.env()
	if _, ok := os.LookupEnv("GIT_COMMITTER_NAME"); !ok {
		env = append(env, "GIT_COMMITTER_NAME=anonymous")
	}
	if _, ok := os.LookupEnv("GIT_COMMITTER_EMAIL"); !ok {
		env = append(env, fmt.Sprintf("GIT_COMMITTER_EMAIL=anonymous@http.%s", from))
	}
	p, err := r.git.start(ctx, r.dir, env, ReceivePack.String(), "--stateless-rpc", ".")
	return p, r.orGone(err)
}

// said is what git said of itself: for all repositories of a Root that have the same
// format it is the same.
type said struct {
	mu      sync.Mutex // guards what follows
	fetches [2][]byte  // all of upload-pack's first words in version 2
}

// pushCan is what a push can be here, but for the format. Without reports of refs that became
// others. Push options have no effect. They are offered because git makes no push with options
// to a server that does not take them.
const pushCan = "report-status delete-refs side-band-64k quiet atomic ofs-delta push-options"

// fetchCan is what a fetch can be here in versions 0 and 1, but for the format and HEAD:
// what git 2.39 says where there are refs.
const fetchCan = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not deepen-relative " +
	"no-progress include-tag multi_ack_detailed allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done filter"

// AdvertiseRefs returns the ref advertisement of a service without a git process. Git's
// capabilities are read once for all repositories of a format. It reports false where git
// must be asked (see Advertise): for fetches in versions 0 and 1 where there are refs,
// and of repositories that are not as Talon makes them. Before version 2.41, git
// advertises nothing for an empty repository. Pushes are asked for packs that are not thin if
// noThin is set.
func (r *Repo) AdvertiseRefs(ctx context.Context, s Service, v Protocol, noThin bool) ([]byte, bool, error) {
	if err := r.mustExist(); err != nil {
		return nil, false, err
	}
	if r.git.plain {
		return nil, false, nil
	}
	if s == ReceivePack {
		text, err := r.advertisePush(ctx, v, noThin)
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

// noRefs are the names that an empty repository advertises.
var noRefs = []string{"capabilities^{}"}

func zeros(f Format) string { return strings.Repeat("0", idLength(f)) }

// advertisePush lists the refs as git receive-pack does.
func (r *Repo) advertisePush(ctx context.Context, v Protocol, noThin bool) ([]byte, error) {
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
	can := pushCan
	if noThin {
		can += " no-thin"
	}
	return advertise(v, format, can, names, refs), nil
}

// advertise writes refs and, with the first of them, capabilities.
func advertise(v Protocol, format Format, can string, names []string, refs map[string]string) []byte {
	var text []byte
	if v == 1 {
		text = AppendPkt(text, "version 1\n")
	}
	can = "\x00" + can + " object-format=" + format.String() + " agent=talon"
	for _, name := range names {
		text = AppendPkt(text, refs[name], " ", name, can, "\n")
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

// AppendPkt appends a pkt-line (gitprotocol-common). REQUIRES: the parts fit in one.
func AppendPkt(text []byte, parts ...string) []byte {
	n := 4
	for _, part := range parts {
		n += len(part)
	}
	text = fmt.Appendf(text, "%04x", n)
	for _, part := range parts {
		text = append(text, part...)
	}
	return text
}

// PktLength reads the four hex digits that a pkt-line begins with: its length, with them. It
// reports false if they are none. The caller interprets lengths below 4.
func PktLength(digits []byte) (n int, ok bool) {
	for _, c := range digits {
		n <<= 4
		switch {
		case '0' <= c && c <= '9':
			n |= int(c - '0')
		case 'a' <= c && c <= 'f':
			n |= int(c-'a') + 10
		case 'A' <= c && c <= 'F':
			n |= int(c-'A') + 10
		default:
			return 0, false
		}
	}
	return n, true
}
