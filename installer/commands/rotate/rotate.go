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

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/prompt"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/selftest"
)

// Command is the name of this command's runs in the journal.
const Command = "rotate-keys"

// Options of a rotation.
type Options struct {
	User    string // of the new keys; "" = chosen
	KeepOld bool   // do not make the old keys worthless
	Restart bool   // restart the Pods instead of waiting for them to take the keys over
	// RestartOthers restarts other workloads that read the Secret.
	RestartOthers bool
	// Finish ends old keys that rotations have kept, and does nothing else. Force does so also where something uses them.
	Finish, Force bool
	// ReloadTimeout is how long the Pods may take to take the keys over before they are restarted; 0 = DefaultReloadTimeout.
	ReloadTimeout time.Duration

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
	case o.Finish && (o.KeepOld || o.Restart || o.User != ""):
		return report.Usage("--finish makes no new keys: --keep-old, --restart and --user have no meaning with it", "leave them out")
	}
	return nil
}

type run struct {
	*engine.Env
	Options

	secret  *credentials.Secret
	local   *cloudstack.Config // the Secret's, for this machine
	admin   *cloudapi.Client
	plan    *Plan
	keys    credentials.Keys // the new ones
	old     []byte           // the Secret's cloud-config before
	hide    []string         // secrets that no text may hold
	result  Result
	watcher *watcher

	changed   time.Time // when the Secret got its keys; zero before
	restarted []string
	kept      []string // why the old keys still work
	ended     []string // users
}

// Run rotates the keys.
func Run(ctx context.Context, e *engine.Env, o Options) error {
	r := &run{Env: e, Options: o}
	e.Scrub = r.scrub
	var err error
	if r.secret, err = credentials.ReadSecret(ctx, e.Cluster.Kube, e.Cluster.Namespace); err != nil {
		return e.Cluster.Explain(err)
	}
	switch {
	case !r.secret.Exists:
		return report.Usage(fmt.Sprintf("there is no Secret %s/%s", r.secret.Namespace, r.secret.Name), "run csccm install")
	case r.secret.Problem != nil:
		return report.Usage(r.secret.Problem.Error(), "correct the Secret, or run csccm install --overwrite-secret")
	}
	r.hide = append(r.hide, r.secret.Config.APIKey, r.secret.Config.SecretKey)
	var cleanup func()
	if r.local, cleanup, err = r.secret.LocalConfig(ctx, e.Cluster.Kube); err != nil {
		return e.Cluster.Explain(err)
	}
	defer cleanup()
	r.watcher = &watcher{run: r, seen: map[string]said{}, waiter: e.Waiter()}
	if err := r.watcher.ready(ctx); err != nil {
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
	if o.Finish {
		return r.finish(ctx)
	}
	return r.rotate(ctx)
}

func (r *run) rotate(ctx context.Context) error {
	object, err := r.read(ctx)
	if err != nil {
		return err
	}
	if r.plan, err = newPlan(ctx, r.admin, object, r.secret.Config.APIKey, r.User); err != nil {
		return err
	}
	if r.plan.switched {
		r.changed = r.changedAt(object)
	}
	if err := r.findOthers(ctx); err != nil {
		return err
	}
	r.plan.decide(&r.Options, r.changed)
	steps := []engine.Step{
		{Name: "proof by the controller", Do: r.prove}, {Name: "other users of the keys", Do: r.others}, {Name: "old keys", Do: r.retire},
	}
	if !r.plan.switched {
		steps = append([]engine.Step{{Name: "new keys", Do: r.makeKeys}, {Name: "Secret", Do: r.write}}, steps...)
	}
	return r.Run(ctx, engine.Operation{
		Name: Command, What: fmt.Sprintf("rotate the keys of account %q", r.plan.Account), Question: prompt.Question{Message: "Go on"},
		Plan: r.plan, Show: r.plan.show(r.RestartOthers), Steps: steps, Result: func() any { return r.outcome() }, Done: r.done,
		Prepare: func(ctx context.Context) error {
			if r.plan.switched {
				return nil
			}
			return r.watcher.before(ctx)
		},
	})
}

func (r *run) scrub(text string) string {
	for _, s := range r.hide {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}

func (r *run) read(ctx context.Context) (*corev1.Secret, error) {
	s, err := r.Cluster.Kube.CoreV1().Secrets(r.secret.Namespace).Get(ctx, r.secret.Name, metav1.GetOptions{})
	return s, r.Cluster.Explain(err)
}

// change updates the Secret, again when somebody else did meanwhile.
func (r *run) change(ctx context.Context, edit func(s *corev1.Secret)) (changed *corev1.Secret, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := r.Cluster.Kube.CoreV1().Secrets(r.secret.Namespace).Get(ctx, r.secret.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s = s.DeepCopy()
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		edit(s)
		changed, err = r.Cluster.Kube.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{FieldManager: fieldManager})
		return err
	})
	return changed, r.Cluster.Explain(err)
}

// makeKeys names the user on the Secret, makes it, registers keys and proves them.
func (r *run) makeKeys(ctx context.Context, note engine.Note) error {
	p := r.plan
	r.Progress.Step("New keys of user %q", p.To)
	err := engine.Shielded(ctx, func(ctx context.Context) error {
		// First, so that a run that ends here is continued with the same user.
		if _, err := r.change(ctx, func(s *corev1.Secret) { s.Annotations[annotationTo] = p.To }); err != nil {
			return err
		}
		if p.toID == "" {
			made := credentials.MadeObject{Kind: credentials.MadeUser, Name: p.To, Account: p.Account, DomainID: p.ends[0].DomainID, Domain: p.ends[0].Domain}
			record := func() error {
				return credentials.RecordMade(ctx, r.Cluster.Kube, r.secret.Namespace, r.secret.Config.APIURL, r.secret.Config.SSLNoVerify, made)
			}
			if err := record(); err != nil {
				return r.Cluster.Explain(err)
			}
			u, err := r.admin.CreateUser(ctx, credentials.NewUser(p.Account, p.To, p.ends[0].DomainID))
			if err != nil {
				return fmt.Errorf("creating user %q: %w", p.To, err)
			}
			p.toID, made.ID = u.ID, u.ID
			if err := record(); err != nil {
				return r.Cluster.Explain(err)
			}
			note("made user %q", p.To)
		}
		keys, err := r.admin.RegisterUserKeys(ctx, p.toID)
		if err != nil {
			return fmt.Errorf("registering keys for user %q: %w", p.To, err)
		}
		r.keys = credentials.Keys{APIKey: keys.APIKey, SecretKey: keys.SecretKey}
		r.hide = append(r.hide, keys.APIKey, keys.SecretKey)
		note("registered keys of user %q", p.To)
		return nil
	})
	if err == nil {
		err = r.verify(ctx)
	}
	if err != nil {
		return err
	}
	r.Progress.Done("they do what the controller needs")
	return nil
}

func (r *run) verify(ctx context.Context) error {
	cfg := *r.local
	cfg.APIKey, cfg.SecretKey = r.keys.APIKey, r.keys.SecretKey
	api, err := cloudstack.NewClient(&cfg)
	if err != nil {
		return err
	}
	test := &selftest.Test{Config: &cfg, Client: api, Required: r.Required, Optional: r.Optional, Out: io.Discard}
	_, err = credentials.Verify(ctx, test, "")
	return err
}

// write puts the new keys into the Secret and, with the same write, whose keys
// were there before.
func (r *run) write(ctx context.Context, note engine.Note) error {
	r.Progress.Step("Secret %s/%s", r.secret.Namespace, r.secret.Name)
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
	if err != nil {
		return err
	}
	note("the Secret holds the keys of user %q", r.plan.To)
	r.Progress.Done("written")
	return nil
}

// prove waits for the controller; when it refuses the keys, the old ones come
// back, which still work.
func (r *run) prove(ctx context.Context, note engine.Note) error {
	err := r.watcher.prove(ctx)
	if err == nil || r.old == nil || ctx.Err() != nil {
		return err
	}
	back := engine.Shielded(ctx, func(ctx context.Context) error {
		_, err := r.change(ctx, func(s *corev1.Secret) {
			s.Data[credentials.SecretKey] = r.old
			s.Annotations[annotationTo] = r.plan.To
			delete(s.Annotations, annotationFrom)
			delete(s.Annotations, annotationAt)
			credentials.ReplaceUser(s, r.plan.To, r.plan.From, r.keys.APIKey, r.secret.Config.APIKey)
		})
		return err
	})
	if back != nil {
		return unproven(err, back)
	}
	note("the Secret holds the keys of user %q again", r.plan.From)
	return unproven(err, nil)
}

// unproven is the error of a controller that did not take the new keys. back is why the old keys could not be put back.
func unproven(err, back error) error {
	state := "the Secret holds the old keys again, which still work"
	if back != nil {
		state = fmt.Sprintf("and the old keys could not be put back: %v", back)
	}
	return report.Remedied(fmt.Errorf("%w; %s", err, state), "see csccm doctor for the cause, and run csccm rotate-keys again")
}
