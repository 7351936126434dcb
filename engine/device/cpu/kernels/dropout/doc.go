// Package dropout decides which elements dropout keeps ([Dropper]), by their index in the
// global batch: so the mask is the same however a batch is cut.
package dropout
