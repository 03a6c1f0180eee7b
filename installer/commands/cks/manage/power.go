// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"

	"github.com/csccm/csccm/pkg/cloudstack"
)

// planPower plans to start or to stop a cluster.
func planPower(operation string, k *cloudstack.KubernetesCluster) (*Plan, error) {
	if err := managed(k, operation); err != nil {
		return nil, err
	}
	p := newPlan(operation, k)
	doing, to := "Starting", stateRunning
	if operation == "stop" {
		doing, to = "Stopping", stateStopped
	}
	if k.State == to {
		return p.none("it is " + to), nil
	}
	p.change("state", k.State, to)
	return p, p.running(k, doing)
}

func inState(state string) goal {
	return func(k *cloudstack.KubernetesCluster) bool { return k != nil && k.State == state }
}

// Start starts a cluster that is stopped.
func (s *Service) Start(ctx context.Context, name string) error {
	return s.power(ctx, name, "start", stateRunning, s.API.StartKubernetesCluster)
}

// Stop stops the VMs of a cluster.
func (s *Service) Stop(ctx context.Context, name string) error {
	return s.power(ctx, name, "stop", stateStopped, s.API.StopKubernetesCluster)
}

func (s *Service) power(ctx context.Context, name, operation, to string, call func(context.Context, string) (cloudstack.Submitted, error)) error {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}
	p, err := planPower(operation, k)
	if err != nil {
		return err
	}
	return s.run(ctx, &task{plan: p, goal: inState(to), submit: func(ctx context.Context) (cloudstack.Submitted, error) { return call(ctx, k.ID) }})
}
