package plugin

import "context"

// change brings what runs to what is wanted. Every change of plugins takes this way: of the
// folder, by a command, and back to an earlier generation.
//
//  1. Wanted: want says which sources run from now on.
//  2. Built: each of these becomes a generation that has passed every check ([Registry.buildAll]).
//  3. Switched: the next active set decides ([Registry.apply]). Servers that share plugins
//     agree first: each builds what is proposed ([shared.consult]). Once all can run it,
//     each of them switches at the same commit ([Registry.Switch]).
//
// Nothing is locked while the other servers are asked.
func (r *Registry) change(ctx context.Context, want func(context.Context) (*wanted, error)) error {
	p, err := r.changeHere(ctx, want)
	if p == nil {
		return err
	}
	return r.others.agree(ctx, p)
}

// changeHere makes a change on a server that is alone. On others it returns a
// proposal for all nodes, nil for none.
func (r *Registry) changeHere(ctx context.Context, want func(context.Context) (*wanted, error)) (*proposal, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	w, err := want(ctx)
	if err != nil || w == nil {
		return nil, err
	}
	r.buildAll(ctx, w.candidates)
	if err = ctx.Err(); err == nil && w.check != nil {
		err = w.check(ctx)
	}
	if err == nil {
		if p, asks := r.others.newProposal(w); asks {
			abandon(w.candidates) // they are built again when they are proposed
			return p, nil
		}
	}
	if err == nil && w.write != nil {
		err = w.write()
	}
	if err != nil {
		abandon(w.candidates)
		return nil, err
	}
	r.apply(w)
	return nil, nil
}
