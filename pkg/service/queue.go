// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Key identifies a Service in the queue. Another Service of the same name has another UID.
type Key struct {
	Namespace string
	UID       types.UID
}

// KeyOf returns the key of a Service.
func KeyOf(svc *corev1.Service) Key { return Key{svc.Namespace, svc.UID} }

// fairQueue is the order in which Services are worked on: one of each namespace after the other. It implements
// workqueue.Queue, whose methods are called under the lock of the workqueue.
type fairQueue struct {
	waiting    map[string][]Key
	namespaces []string // those with waiting Services, the next one first
	length     int
}

// queueName is the label of the metrics workqueue_*, as of the queue of Kubernetes' own service controller.
const queueName = "service"

func newQueue(c clock.WithTicker) workqueue.TypedDelayingInterface[Key] {
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{
		Name: queueName, Clock: c,
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Name: queueName, Clock: c, Queue: &fairQueue{waiting: map[string][]Key{}}}),
	})
}

func (q *fairQueue) Touch(Key) {}

func (q *fairQueue) Len() int { return q.length }

func (q *fairQueue) Push(k Key) {
	if len(q.waiting[k.Namespace]) == 0 {
		q.namespaces = append(q.namespaces, k.Namespace)
	}
	q.waiting[k.Namespace] = append(q.waiting[k.Namespace], k)
	q.length++
}

func (q *fairQueue) Pop() Key {
	namespace := q.namespaces[0]
	q.namespaces = q.namespaces[1:]
	list := q.waiting[namespace]
	if len(list) > 1 {
		q.waiting[namespace] = list[1:]
		q.namespaces = append(q.namespaces, namespace)
	} else {
		delete(q.waiting, namespace)
	}
	q.length--
	return list[0]
}
