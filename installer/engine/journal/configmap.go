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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// ConfigMap is the name of the ConfigMap that holds the last run of each command; the keys are the commands' names.
const ConfigMap = "csccm-journal"

// copyTimeout limits one write of the copy, so that it does not delay the command for long.
const copyTimeout = 10 * time.Second

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
		if err != nil || j.entries[i].Event == EventBefore {
			continue
		}
		text.Write(append(line, '\n'))
	}
	err := cluster.ChangeConfigMap(ctx, j.o.Kube, j.o.Namespace, ConfigMap, func(c *corev1.ConfigMap) error {
		c.Data[j.o.Command] = text.String()
		return nil
	})
	if err != nil {
		j.warn("the journal's copy in ConfigMap %s/%s cannot be written: %v", j.o.Namespace, ConfigMap, err)
	}
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
