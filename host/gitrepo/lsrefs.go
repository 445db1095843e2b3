package gitrepo

import (
	"context"
	"errors"
	"strings"
)

// maxRefPrefixes bounds the prefixes of one request. Git ignores them all from 65,536 on.
const maxRefPrefixes = 1 << 10

// refsRequest is a request for a list of refs, in version 2 of the protocol.
type refsRequest struct {
	peel, symrefs, unborn bool
	prefixes              []string
}

// parseRefsRequest reads a request. It reports false for requests that git must answer.
func parseRefsRequest(text string, format Format) (q refsRequest, ok bool) {
	arguments := false
	for first := true; ; first = false {
		if len(text) < 4 {
			return q, false
		}
		n, ok := PktLength([]byte(text[:4]))
		switch {
		case !ok || n > len(text) || n == 2 || n == 3:
			return q, false
		case n == 0:
			return q, !first && len(text) == 4
		case n == 1:
			if first || arguments {
				return q, false
			}
			arguments, text = true, text[4:]
			continue
		}
		line := strings.TrimSuffix(text[4:n], "\n")
		text = text[n:]
		switch {
		case first:
			ok = line == "command=ls-refs"
		case arguments:
			ok = q.argument(line)
		default:
			ok = strings.HasPrefix(line, "agent=") || strings.HasPrefix(line, "session-id=") || line == "object-format="+format.String()
		}
		if !ok {
			return q, false
		}
	}
}

// argument reads an argument of a request.
func (q *refsRequest) argument(line string) bool {
	switch line {
	case "peel":
		q.peel = true
	case "symrefs":
		q.symrefs = true
	case "unborn":
		q.unborn = true
	default:
		prefix, ok := strings.CutPrefix(line, "ref-prefix ")
		q.prefixes = append(q.prefixes, prefix)
		return ok && len(q.prefixes) <= maxRefPrefixes
	}
	return true
}

func (q *refsRequest) matches(name string) bool {
	if len(q.prefixes) == 0 {
		return true
	}
	for _, prefix := range q.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// append appends the line of a ref, which is a symbolic one if it has a target.
func (q *refsRequest) append(text []byte, ref Ref, target string) []byte {
	parts := []string{ref.ID, " ", ref.Name}
	if q.symrefs && target != "" {
		parts = append(parts, " symref-target:", target)
	}
	if q.peel && ref.Peeled != "" {
		parts = append(parts, " peeled:", ref.Peeled)
	}
	return AppendPkt(text, append(parts, "\n")...)
}

// ListRefs answers a request for a list of refs as git upload-pack does in version 2 of the
// protocol, without a process. It reports false where git must be asked (see Upload): for
// requests that are unusual, for repositories that are not as Talon makes them, and for tags
// that nobody asked about before ([Repo.Refs] does).
func (r *Repo) ListRefs(ctx context.Context, request string) ([]byte, bool, error) {
	if r.git.plain || r.root == nil {
		return nil, false, nil
	}
	format, err := r.Format(ctx)
	if err != nil {
		return nil, false, err
	}
	q, ok := parseRefsRequest(request, format)
	if !ok {
		return nil, false, nil
	}
	refs, branch, err := r.refFiles(ctx)
	if errors.Is(err, errUnusual) || err == nil && (branch == "" || q.peel && !r.peelKnown(refs)) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var text []byte
	if q.matches("HEAD") {
		head := Ref{Name: "HEAD"}
		for _, ref := range refs {
			if ref.Name == branch {
				head.ID, head.Peeled = ref.ID, ref.Peeled
			}
		}
		if head.ID == "" && q.unborn && q.symrefs {
			head.ID = "unborn"
		}
		if head.ID != "" {
			text = q.append(text, head, branch)
		}
	}
	for _, ref := range refs {
		if q.matches(ref.Name) {
			text = q.append(text, ref.Ref, "")
		}
	}
	return append(text, "0000"...), true, nil
}
