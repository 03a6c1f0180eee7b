// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package rotate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/selftest"
)

const fieldManager = "csccm"

// Options of a rotation.
type Options struct {
	KeepOld bool // do not revoke the old keys
	// Finish ends old keys that rotations have kept, and does nothing else. Force does so also where something uses them.
	Finish, Force bool

	// Admin makes the administrator's session for the API at cfg's URL, and ends it.
	Admin func(ctx context.Context, cfg *cloudstack.Config) (admin *cloudapi.Client, end func(), err error)
	// Commands that the controller calls, and those of them it can do without.
	Required, Optional []string
}

// Validate checks what needs no connection.
func (o *Options) Validate() error {
	switch {
	case o.Force && !o.Finish:
		return report.Usage("--force is only for --finish", "add --finish, or leave --force out")
	case o.Finish && o.KeepOld:
		return report.Usage("--finish makes no new keys: --keep-old has no meaning with it", "leave it out")
	}
	return nil
}

type run struct {
	*engine.Env
	Options

	secret  *credentials.Secret
	local   *cloudstack.Config // the Secret's, for this machine
	api     *cloudapi.Client   // with the keys that the Secret held at first
	admin   *cloudapi.Client
	plan    *Plan
	keys    *cloudapi.Keys   // the new ones
	old     []byte           // the Secret's cloud-config before
	changed time.Time        // when the Secret got its keys; zero before
	hide    []string         // secrets that no text may hold
	heard   map[string]words // of the controller's Pods, before the Secret was changed or they were restarted
}

// Run rotates the keys.
func Run(ctx context.Context, e *engine.Env, o Options) error {
	r := &run{Env: e, Options: o}
	e.Scrub = func(text string) string { return report.Mask(text, r.hide...) }
	cs, err := cloud.OfSecret(ctx, e.Cluster)
	if err != nil {
		return err
	}
	defer cs.Close()
	r.secret, r.local, r.api = cs.Secret, cs.Config, cs.Client
	r.hide = append(r.hide, r.local.APIKey, r.local.SecretKey)
	if _, err := r.pods(ctx); err != nil { // keys that nobody could prove are not made
		return err
	}
	login := *r.local
	login.APIKey, login.SecretKey, login.ProjectID = "", "", ""
	admin, end, err := o.Admin(ctx, &login)
	if err != nil {
		return err
	}
	defer end()
	r.admin = admin
	if err := r.newPlan(ctx); err != nil {
		return err
	}
	if o.Finish || r.plan.switched {
		r.changed = r.changedAt(r.secret.Object)
	}
	found, err := r.look(ctx)
	if err != nil {
		return err
	}
	p := r.plan
	p.Others = *found
	op := engine.Operation{
		Name: "rotate-keys", What: fmt.Sprintf("rotate the keys of account %q", p.Account), Question: prompt.Question{Message: "Go on"},
		Plan: p, Show: r.show, Done: r.done, Steps: r.steps(),
	}
	if o.Finish {
		op.What, op.Question = fmt.Sprintf("end old keys of account %q", p.Account), prompt.Question{}
		op.Check = func(context.Context) error { return r.mayBreak(p.KeptFor) }
	}
	return e.Run(ctx, op)
}

// steps returns what is left to do, and says so in the plan.
func (r *run) steps() (steps []engine.Step) {
	p := r.plan
	step := func(do func(context.Context, engine.Note) error, format string, args ...any) {
		name := fmt.Sprintf(format, args...)
		p.Steps = append(p.Steps, name)
		steps = append(steps, engine.Step{Name: name, Do: func(ctx context.Context, note engine.Note) error {
			p.DryRun = false
			return do(ctx, note)
		}})
	}
	if len(p.ends) == 0 {
		return nil
	}
	if !r.Finish && !p.switched {
		if p.toID == "" {
			step(r.makeUser, "create user %q in account %q", p.To, p.Account)
		}
		step(r.makeKeys, "register API keys for user %q, and prove them", p.To)
		step(r.write, "write them into Secret %s", p.Secret)
	}
	if !r.Finish {
		step(r.prove, "wait until the controller works with the keys of user %q", p.To)
	}
	p.KeptFor = append(p.KeptFor, r.keeps(&p.Others)...)
	for i := range p.ends {
		u := &p.ends[i]
		text := "revoke the old keys of user %q: whatever else uses them stops working"
		if len(p.KeptFor) > 0 && !r.Finish {
			text = "leave the keys of user %q as they are; csccm rotate-keys --finish ends them"
		}
		step(func(ctx context.Context, note engine.Note) error { return r.retire(ctx, u, note) }, text, u.Username)
	}
	if r.Finish {
		step(r.check, "prove the keys in the Secret")
	}
	return steps
}

// change updates the Secret, again when somebody else did meanwhile, and not only half when the run is stopped.
func (r *run) change(ctx context.Context, edit func(s *corev1.Secret)) (changed *corev1.Secret, err error) {
	secrets := r.Cluster.Kube.CoreV1().Secrets(r.secret.Namespace)
	err = engine.Shielded(ctx, func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			s, err := secrets.Get(ctx, r.secret.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			s = s.DeepCopy()
			if s.Annotations == nil {
				s.Annotations = map[string]string{}
			}
			edit(s)
			changed, err = secrets.Update(ctx, s, metav1.UpdateOptions{FieldManager: fieldManager})
			return err
		})
	})
	return changed, r.Cluster.Explain(err)
}

// begin names the user on the Secret, so that a run that ends here is continued with the same one.
func (r *run) begin(ctx context.Context) error {
	_, err := r.change(ctx, func(s *corev1.Secret) { s.Annotations[annotationTo] = r.plan.To })
	return err
}

// makeUser creates the user of the new keys.
func (r *run) makeUser(ctx context.Context, note engine.Note) error {
	p, holder := r.plan, &r.plan.ends[0]
	made := credentials.MadeObject{Kind: credentials.MadeUser, Name: p.To, Account: p.Account, DomainID: holder.DomainID, Domain: holder.Domain}
	return engine.Shielded(ctx, func(ctx context.Context) error {
		if err := r.begin(ctx); err != nil {
			return err
		}
		return credentials.Recorded(ctx, r.Cluster, r.local, func() []credentials.MadeObject { return []credentials.MadeObject{made} }, func() error {
			u, err := r.admin.CreateUser(ctx, credentials.NewUser(p.Account, p.To, holder.DomainID))
			if err != nil {
				return fmt.Errorf("creating user %q: %w", p.To, err)
			}
			note("made user %q", p.To)
			p.toID, made.ID = u.ID, u.ID
			return nil
		})
	})
}

// makeKeys registers keys and proves them.
func (r *run) makeKeys(ctx context.Context, note engine.Note) error {
	p := r.plan
	r.Progress.Step("New keys of user %q", p.To)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		err := r.begin(ctx)
		if err == nil {
			r.keys, err = r.register(ctx, p.To, p.toID)
		}
		return err
	})
	if err != nil {
		return err
	}
	note("registered keys of user %q", p.To)
	cfg := *r.local
	cfg.APIKey, cfg.SecretKey = r.keys.APIKey, r.keys.SecretKey
	api, err := cloudstack.NewClient(&cfg)
	if err == nil {
		test := &selftest.Test{Config: &cfg, Client: api, Required: r.Required, Optional: r.Optional, Out: io.Discard}
		_, err = credentials.Verify(ctx, test)
	}
	if err == nil {
		r.Progress.Done("they do what the controller needs")
	}
	return err
}

// register makes a new pair of keys, which ends the user's old one.
func (r *run) register(ctx context.Context, user, id string) (*cloudapi.Keys, error) {
	keys, err := r.admin.RegisterUserKeys(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("registering keys for user %q: %w", user, err)
	}
	r.hide = append(r.hide, keys.APIKey, keys.SecretKey)
	return keys, nil
}

// write puts the new keys into the Secret and, with the same write, whose keys were there before.
func (r *run) write(ctx context.Context, note engine.Note) error {
	if err := r.hear(ctx); err != nil {
		return err
	}
	r.Progress.Step("Secret %s", r.plan.Secret)
	next := *r.secret.Config
	next.APIKey, next.SecretKey = r.keys.APIKey, r.keys.SecretKey
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		written, err := r.change(ctx, func(s *corev1.Secret) {
			r.old = bytes.Clone(s.Data[credentials.SecretKey])
			s.Data[credentials.SecretKey] = next.Render()
			s.Annotations[annotationFrom] = r.plan.From
			delete(s.Annotations, annotationTo)
			delete(s.Annotations, annotationAt) // of the rotation before
			credentials.ReplaceUser(s, r.plan.From, r.plan.To, r.secret.Config.APIKey, r.keys.APIKey)
		})
		if err != nil {
			return err
		}
		r.changed = r.changedAt(written)
		_, err = r.change(ctx, func(s *corev1.Secret) { s.Annotations[annotationAt] = r.changed.UTC().Format(time.RFC3339) })
		return err
	})
	if err == nil {
		note("the Secret holds the keys of user %q", r.plan.To)
		r.Progress.Done("written")
	}
	return err
}

// writeBack puts the old keys into the Secret again.
func (r *run) writeBack(ctx context.Context) error {
	_, err := r.change(ctx, func(s *corev1.Secret) {
		s.Data[credentials.SecretKey] = r.old
		s.Annotations[annotationTo] = r.plan.To
		delete(s.Annotations, annotationFrom)
		delete(s.Annotations, annotationAt)
		credentials.ReplaceUser(s, r.plan.To, r.plan.From, r.keys.APIKey, r.secret.Config.APIKey)
	})
	return err
}

// changedAt returns when the Secret got its keys, by the clock of the API server, which also times the creation of Pods.
// Where nothing says so it is now: then all Pods are older.
func (r *run) changedAt(s *corev1.Secret) time.Time {
	if at, err := time.Parse(time.RFC3339, s.Annotations[annotationAt]); err == nil {
		return at
	}
	var latest time.Time
	for _, m := range s.ManagedFields {
		if m.Manager == fieldManager && m.Time != nil && m.Time.After(latest) {
			latest = m.Time.Time
		}
	}
	if latest.IsZero() {
		return r.Clock.Now()
	}
	return latest
}

// keeps returns why old keys must still work, or what --finish would break.
func (r *run) keeps(o *Others) (why []string) {
	if r.KeepOld {
		why = []string{"--keep-old"}
	}
	why = append(why, o.inUse(r.changed)...)
	for _, what := range o.NotLookedAt {
		if !r.Finish { // who finishes has been told, and decides
			why = append(why, "csccm may not read "+what)
		}
	}
	return why
}

// mayBreak refuses to break something, unless forced.
func (r *run) mayBreak(breaks []string) error {
	if len(breaks) == 0 || r.Force {
		return nil
	}
	return &report.Error{
		What: "the old keys are still in use: " + strings.Join(breaks, "; "), Code: report.ExitCheckFailed,
		Fix: "restart what read the Secret before (kubectl rollout restart), write the new keys into the copies; " +
			"or end the old keys all the same with --force",
	}
}

// retire revokes a user's old keys: CloudStack replaces them by a pair that nobody reads. The next rotation takes the user.
// Where something may still work with them, they stay, and the next rotation does not take their user.
func (r *run) retire(ctx context.Context, u *cloudapi.User, note engine.Note) error {
	found, err := r.look(ctx)
	if err != nil {
		return err
	}
	keptFor := r.keeps(found)
	if r.Finish {
		if err := r.mayBreak(keptFor); err != nil {
			return err
		}
		keptFor = nil
	}
	r.plan.KeptFor = append([]string{}, keptFor...)
	if len(keptFor) > 0 {
		_, err := r.change(ctx, func(s *corev1.Secret) {
			delete(s.Annotations, annotationFrom)
			delete(s.Annotations, annotationSpare)
		})
		return err
	}
	r.Progress.Step("Old keys of user %q", u.Username)
	return engine.Shielded(ctx, func(ctx context.Context) error {
		if _, err := r.register(ctx, u.Username, u.ID); err != nil {
			return err
		}
		r.plan.Ended = append(r.plan.Ended, u.Username)
		note("the old keys of user %q are revoked", u.Username)
		r.Progress.Done("revoked")
		_, err := r.change(ctx, func(s *corev1.Secret) {
			delete(s.Annotations, annotationFrom)
			s.Annotations[annotationSpare] = u.Username
		})
		return err
	})
}

// check proves that the keys in the Secret are not those that were ended.
func (r *run) check(ctx context.Context, _ engine.Note) error {
	err := credentials.CheckKeys(ctx, r.local.APIURL, r.api)
	if err != nil && ctx.Err() == nil {
		return report.Remedied(fmt.Errorf("the old keys are revoked; %w", err), "see csccm doctor")
	}
	return err
}
