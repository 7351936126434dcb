#!/bin/bash
# Trains on the nodes of a Slurm job: sbatch slurm.sh my.yaml --run my
# Where the time of the job is too short, it saves, queues itself again, and goes on.
#SBATCH --job-name=trainer
#SBATCH --nodes=2 --ntasks-per-node=1 --exclusive
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue --open-mode=append
srun --mpi=pmix --cpu-bind=none --kill-on-bad-exit=1 trainer train "$@" --resume=auto
code=$?
# 75: saved, or a rank was lost. Above 128: a signal has killed a rank, such as the one for too much memory.
if [ $code = 75 ] || [ $code -gt 128 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 50 ]; then
	exec scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
