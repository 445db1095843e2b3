package compile

import (
	"context"

	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
)

// do loads the module and runs its self-test.
func (j *Job) do(ctx context.Context) error {
	file, err := sidecar.Parse(j.Sidecar)
	if err != nil {
		return err
	}
	o := guest.Options{
		Name: j.Name, Grants: file.Grants, Config: file.Config, Budgets: guest.BudgetsOf(&file.Budgets), Limits: j.Limits,
		Sets: names(file.Sets), Service: j.Service, CacheDir: j.CacheDir, Patient: true,
	}
	m, err := guest.Load(ctx, j.Wasm, o)
	if err != nil {
		return err
	}
	if err := m.Close(ctx); err != nil {
		return err
	}
	return guest.SelfTest(ctx, j.Wasm, o)
}

// names are sets that are there, and have no members.
type names []sidecar.Set

func (list names) Contains(name, _ []byte) (yes, known bool) {
	for _, set := range list {
		known = known || set.Name == string(name)
	}
	return false, known
}
