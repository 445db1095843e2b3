package gitrepo

import "context"

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

// Advertise starts a service to say what the repository has.
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
