// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ConfigMap is the name of the ConfigMap that holds the last run of each command; the keys are the commands' names.
const ConfigMap = "csccm-journal"

// copyTimeout limits one write of the copy, so that it does not delay the command for long.
const copyTimeout = 10 * time.Second

const fieldManager = "csccm"

// copy updates the ConfigMap. An error is only a warning: commands must also
// work for users who may not write ConfigMaps.
func (j *Journal) copy(ctx context.Context) {
	if !j.publish || j.o.Kube == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), copyTimeout)
	defer cancel()
	var text strings.Builder
	for i := range j.entries {
		line, err := json.Marshal(j.entries[i])
		if err != nil {
			continue
		}
		text.Write(append(line, '\n'))
	}
	if err := j.write(ctx, text.String()); err != nil {
		j.warn("the journal's copy in ConfigMap %s/%s cannot be written: %v", j.o.Namespace, ConfigMap, err)
	}
}

func (j *Journal) write(ctx context.Context, text string) error {
	maps := j.o.Kube.CoreV1().ConfigMaps(j.o.Namespace)
	const tries = 3 // another run may write its own key at the same time
	var err error
	for range tries {
		var current *corev1.ConfigMap
		current, err = maps.Get(ctx, ConfigMap, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = maps.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: j.o.Namespace, Name: ConfigMap,
					Labels: map[string]string{"app.kubernetes.io/managed-by": fieldManager, "app.kubernetes.io/part-of": "csccm"},
				},
				Data: map[string]string{j.o.Command: text},
			}, metav1.CreateOptions{FieldManager: fieldManager})
		case err == nil:
			changed := current.DeepCopy()
			if changed.Data == nil {
				changed.Data = map[string]string{}
			}
			changed.Data[j.o.Command] = text
			_, err = maps.Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

// Last returns the last run of a command from the cluster's ConfigMap. It returns nil if there is
// none, or if it cannot be read, which must not prevent a new run.
func Last(ctx context.Context, kube kubernetes.Interface, namespace, command string) *Run {
	m, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil || m.Data[command] == "" {
		return nil
	}
	r, err := Parse(m.Data[command])
	if err != nil {
		return nil
	}
	return r
}

// Describe returns how a run ended, as a message of the next run; "" if it succeeded.
func (r *Run) Describe() string {
	if r == nil || r.Step() == "" {
		return ""
	}
	when := r.Began.Format("2006-01-02 15:04:05Z")
	switch {
	case !r.Ended():
		return fmt.Sprintf("the run of %s ended in step %q without a word; continuing", when, r.Step())
	case r.Failure() != "":
		return fmt.Sprintf("the run of %s ended in step %q; continuing", when, r.Step())
	}
	return ""
}
