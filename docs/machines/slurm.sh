#!/bin/bash
# Trains on the nodes of a Slurm job: sbatch slurm.sh my.yaml --run my
# Where the time of the job is too short, it saves, queues itself again, and goes on.
#SBATCH --job-name=trainer
#SBATCH --nodes=2 --ntasks-per-node=1 --exclusive
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue --open-mode=append
srun --mpi=pmix --cpu-bind=none trainer train "$@" --resume=auto
code=$?
# 75: saved, or a rank was lost. Above 128: a rank was killed, such as for too much memory, which may happen again.
if [ $code = 75 ] || { [ $code -gt 128 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ]; }; then
	exec scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
