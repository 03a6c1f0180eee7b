// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/family"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// Run puts csccm's controller in the place of another provider's, or goes back.
func Run(ctx context.Context, e *engine.Env, cs *cloud.Cloud, o Options) error {
	t := &Taker{Env: e, Options: o, Cloud: cs}
	facts, err := t.Detect(ctx)
	if err == nil && !o.Undo {
		err = t.MakePlan(ctx, facts)
	}
	if err != nil {
		return e.Cluster.Explain(err)
	}
	nothing := []string{"Takeover", "nothing to take over: there is no other controller"}
	if o.Undo {
		t.Plan, nothing = PlanUndo(facts), []string{"Undo", "nothing to undo: the old controller works"}
	}
	p, shown, done := t.Plan, e.NewPlan(), ""
	op := engine.Operation{
		Name: "takeover", What: "carry the plan out", Plan: shown, Question: prompt.Question{
			Message: "Carry this out", Help: "What changes is kept on the Services first. Run again, the command continues where it stopped.",
		},
		Done: func() string { return done },
	}
	if !p.needed() && p.Problem == nil {
		shown.Add(nothing[0], nothing[1], nil)
		return e.Run(ctx, op)
	}
	op.Check = t.Consent
	p.AddTo(shown)
	switch {
	case o.Undo:
		op.Name, op.Steps = "takeover-undo", t.Back()
		done = "The old controller works again. csccm's release is still there, with no Pods; remove it:  csccm uninstall --orphan-load-balancers\n"
	case p.Own.Ready == 0:
		shown.Add("Next", p.installLine(), nil)
		op.Steps, done = t.Before(), "Prepared. Next:\n  "+p.installLine()+"\n  csccm takeover\n"
	default:
		op.Steps, done = slices.Concat(t.Before(), t.After()), "Taken over. Check it:  csccm doctor\n"+p.Afterwards()
	}
	return e.Run(ctx, op)
}

// installLine is what comes between the two halves.
func (p *Plan) installLine() string {
	line := "csccm install --skip-taint"
	if p.Order == OursFirst {
		line += " --skip-check CCM-002,CCM-003"
	}
	for _, name := range slices.Sorted(maps.Keys(p.Values)) {
		line += " --set " + name + "=" + p.Values[name]
	}
	return line
}

// Afterwards says what is left of the old controllers, how to go back to them and how to remove them.
func (p *Plan) Afterwards() string {
	text := "The old controller is still there, with no Pods. Back to it:  csccm takeover --undo\n"
	for i := range p.Predecessors {
		text += "When nobody goes back to it:  " + p.Predecessors[i].Deletion() + "\n"
	}
	return text + "Addresses stay when their Service is deleted. Hand those that the old one acquired to csccm's:  csccm adopt\n"
}

// FindCredentials reads the cloud-config of the first predecessor that has one: in the Secrets that it mounts, then in
// those of the two providers' own manifests. from names them without a secret.
func FindCredentials(ctx context.Context, kube kubernetes.Interface, predecessors []family.Predecessor) (config *cloudstack.Config, from string, err error) {
	for i := range predecessors {
		p := &predecessors[i]
		if p.Pod == nil {
			continue
		}
		var names []string
		for _, v := range p.Pod.Volumes {
			if v.Secret != nil {
				names = append(names, v.Secret.SecretName)
			}
		}
		for _, name := range append(names, "cloud-config", credentials.SecretName) {
			s, err := kube.CoreV1().Secrets(p.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, "", err
			}
			if cfg := configIn(s); err == nil && cfg != nil {
				return cfg, fmt.Sprintf("Secret %s/%s of %s, API %s", p.Namespace, name, p, cfg.APIURL), nil
			}
		}
	}
	return nil, "", report.Usage("no Secret of another provider holds a cloud-config: neither those that it mounts, nor cloud-config or cloudstack-secret",
		"give --cloud-config FILE, or --api-key-file and --secret-key-file")
}

// configIn parses the first key of a Secret that is a cloud-config with keys.
func configIn(s *corev1.Secret) *cloudstack.Config {
	for _, k := range slices.Sorted(maps.Keys(s.Data)) {
		cfg, err := cloudconfig.Parse(bytes.NewReader(s.Data[k]))
		if err == nil && cfg.APIURL != "" && cfg.APIKey != "" && cfg.SecretKey != "" {
			return cfg
		}
	}
	return nil
}
